"""Embeds pictures into shards; a kill loses at most those that are being computed.

N images, D embedding dimension.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Optional, Union

from tqdm import tqdm

from profs_tf.search.source import IndexSource
from profs_tf.serving.loaded import SavedEmbedder
from profs_tf.shards.dtypes import DTYPES, measure_loss, sample_of_classes
from profs_tf.shards.embedding import calibrate, embed_shards
from profs_tf.shards.folder import Record, ShardFolder
from profs_tf.shards.formats import check_format
from profs_tf.shards.job import Job, ShardOptions
from profs_tf.shards.processes import embed_in_processes
from profs_tf.utils.checks import check_count, check_one_of

_CHOOSE = "Choose another number."


def write_shards(
    source: IndexSource,
    embedder: Union[str, os.PathLike],
    path: Union[str, os.PathLike],
    options: Optional[ShardOptions] = None,
    *,
    num_processes: int = 1,
    recall_sample: int = 20_000,
    overwrite: bool = False,
    progress: bool = False,
) -> dict[str, Any]:
    """Writes the embeddings of N pictures as shards; continues an unfinished folder.

    The batches depend on the pictures alone, so shards that were killed and continued equal, byte for byte,
    those of a single run. Memory: some batches of files and two shards for each process, and about 300 bytes
    an image.

    Args:
        source: The pictures; `pictures_in` and `source_of` make one.
        embedder: Folder of a SavedModel that `save_embedder` wrote.
        path: Folder of the shards.
        options: How embeddings are computed and stored; None: `ShardOptions()`.
        num_processes: Processes that embed, each with a model of its own.
        recall_sample: Number of images, at most, that Recall@1 is measured on, of whole classes; 0: none.
        overwrite: Whether shards of another embedder, list or option are replaced.
        progress: Whether to show a progress bar.

    Returns:
        The manifest, with the number of images that this call embedded as `num_embedded`.

    Raises:
        UnreadableImageError: If a picture cannot be read; the message names it.
        ValueError: If an option is wrong, or the folder holds shards of another run.
        FileExistsError: If the folder holds something else.
        ArithmeticError: If an embedding is not finite.
        ChildProcessError: If a process was killed.
    """
    options = options or ShardOptions()
    _check(options, num_processes, recall_sample)
    model, folder = SavedEmbedder(embedder), ShardFolder(path)
    in_sample = sample_of_classes(source.classes, recall_sample) if recall_sample else None
    job = Job(
        source,
        model.path,
        model.sha256,
        str(folder.path),
        options,
        in_sample,
        recall_sample=recall_sample,
    )
    with folder.writing(job.identity(), overwrite):
        records = folder.records()
        missing = [number for number in range(job.num_shards) if not _is_done(job, number, records)]
        job = dataclasses.replace(job, scale=_scale(job, model, folder))
        num_missing = sum(job.rows(number).stop - job.rows(number).start for number in missing)
        if missing or not folder.is_finished():
            folder.begin()
            with tqdm(
                total=job.num_images,
                initial=job.num_images - num_missing,
                desc="embed",
                unit=" images",
                disable=None if progress else True,
            ) as bar:
                if num_processes == 1:
                    embed_shards(job, model, missing, bar.update)
                else:
                    embed_in_processes(job, missing, min(num_processes, len(missing)), bar.update)
            folder.finish(**_results(job, folder))
        manifest = folder.read_manifest()
        # Without the unreadable ones.
        return {**manifest, "num_embedded": sum(manifest["shards"][at]["num_images"] for at in missing)}


def _check(options: ShardOptions, num_processes: int, recall_sample: int) -> None:
    check_format(options.format)
    check_one_of("dtype", options.dtype, DTYPES)
    for name, value, minimum in (
        ("batch_size", options.batch_size, 1),
        ("shard_size", options.shard_size, 1),
        ("processes", num_processes, 1),
        ("recall_sample", recall_sample, 0),
    ):
        check_count(name, value, _CHOOSE, minimum)


def _scale(job: Job, model: SavedEmbedder, folder: ShardFolder) -> Optional[float]:
    """Returns the scale of int8 codes, which is chosen once for all shards; None for other types."""
    if job.options.dtype != "int8":
        return None
    found = folder.read_manifest().get("scale")
    scale = calibrate(job, model) if found is None else float(found)
    if found is None:
        folder.note(scale=scale)
    return scale


def _is_done(job: Job, number: int, records: dict[int, Record]) -> bool:
    record = records.get(number)
    if record is None or record["key"] != job.key(number):
        return False
    if not job.options.skip_unreadable:
        return not record["unreadable"]
    unreadable = {name for name, _ in record["unreadable"]}
    rows, names = job.rows(number), job.source.names
    return not any(
        job.source.is_readable(at) for at in range(rows.start, rows.stop) if names[at] in unreadable
    )


def _results(job: Job, folder: ShardFolder) -> dict[str, Any]:
    """Returns the entries of the manifest that are known at the end."""
    records = [record for _, record in sorted(folder.records().items())]
    num_images = sum(record["num_images"] for record in records)
    if not num_images:
        raise ValueError(f"`images` must hold a picture that can be read, got none of {job.num_images}.")
    return {
        "num_images": num_images,
        "embedding_dim": records[0]["embedding_dim"],
        "scale": job.scale,
        "recall": _recall(job, folder, records),
        "shards": records,
    }


def _recall(job: Job, folder: ShardFolder, records: list[Record]) -> Optional[dict[str, Any]]:
    """Returns Recall@1 of float32 and of the stored type; None without a sample, or if some of it is gone."""
    sample, source = folder.sample(job.num_shards), job.source
    old = folder.read_manifest()
    if sample is None and old.get("recall") and _keys(old["shards"]) == _keys(records):
        # Damaged shards of a finished folder: their embeddings are as before.
        return old["recall"]
    if sample is None or job.in_sample is None or source.classes is None:
        return None
    left_out = {name for record in records for name, _ in record["unreadable"]}
    chosen = zip(source.names, source.classes, job.in_sample.tolist())
    labels = [label for name, label, is_chosen in chosen if is_chosen and name not in left_out]
    return measure_loss(sample, labels, job.options.dtype, job.scale)


def _keys(records: list[Record]) -> list[Optional[str]]:
    return [record.get("key") if isinstance(record, dict) else None for record in records]
