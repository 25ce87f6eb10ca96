"""Embeds shards in this process: threads read, decode and embed a few batches each, across shards.

Shapes: n images of a batch or shard, D embedding dimension.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Union

import numpy as np

from profs_tf.inputs.decoding import FileOrBytes, UnreadableImageError, read_contents
from profs_tf.search.source import IndexSource
from profs_tf.serving.loaded import SavedEmbedder
from profs_tf.serving.saved_model import check_finite_embeddings
from profs_tf.shards.dtypes import num_clipped, scale_of, to_stored
from profs_tf.shards.folder import ShardFolder
from profs_tf.shards.formats import Rows
from profs_tf.shards.job import Job
from profs_tf.utils.threads import in_threads

# Pictures that the scale of int8 codes is chosen from, at most.
_CALIBRATION_IMAGES = 128


class _Batch(NamedTuple):
    shard: int
    rows: slice
    ends_shard: bool


class _Embedded(NamedTuple):
    """Embeddings, the positions of their pictures in the list, and (position, reason) of the unreadable."""

    embeddings: np.ndarray
    positions: list[int]
    checksums: list[str]
    unreadable: list[tuple[int, str]]


def embed_shards(
    job: Job, model: SavedEmbedder, numbers: Iterable[int], advance: Callable[[int], object]
) -> None:
    """Embeds and writes shards, one after another.

    Args:
        job: Pictures and options.
        model: The job's embedder.
        numbers: Of the shards; taken as they are needed.
        advance: Receives the number of images of each batch that is done.

    Raises:
        UnreadableImageError: If a picture cannot be read, unless those are skipped; the message names it.
        ArithmeticError: If an embedding is not finite; the message names the picture.
        ValueError: If the stored type cannot hold a value.
    """
    folder, keys, parts = ShardFolder(job.output), {}, []

    def batches() -> Iterator[_Batch]:
        for number in numbers:
            # Before its pictures are read: one that changes meanwhile is embedded again by the next run.
            keys[number] = job.key(number)
            rows = job.rows(number)
            for start in range(rows.start, rows.stop, job.options.batch_size):
                stop = min(start + job.options.batch_size, rows.stop)
                yield _Batch(number, slice(start, stop), stop == rows.stop)

    def embed(batch: _Batch) -> tuple[_Batch, _Embedded]:
        return batch, _embed(job.source, model, batch.rows, job.options.skip_unreadable)

    for batch, embedded in in_threads(embed, batches()):
        parts.append(embedded)
        if batch.ends_shard:
            _write(folder, job, batch.shard, keys.pop(batch.shard), parts)
            parts.clear()
        advance(batch.rows.stop - batch.rows.start)


def calibrate(job: Job, model: SavedEmbedder) -> float:
    """Returns the scale of int8 codes, from pictures that are spread evenly over the list.

    Raises:
        ValueError: If none of them can be read.
        UnreadableImageError: As `embed_shards`.
    """
    rows = slice(0, job.num_images, -(-job.num_images // _CALIBRATION_IMAGES))
    sample = _embed(job.source, model, rows, job.options.skip_unreadable).embeddings
    if not len(sample):
        raise ValueError("`images` must hold pictures that can be read, got none in a sample.")
    return scale_of(sample)


def _embed(source: IndexSource, model: SavedEmbedder, rows: slice, skip_unreadable: bool) -> _Embedded:
    images = source.images[rows]
    contents: Mapping[int, Union[bytes, memoryview]]
    errors: dict[int, UnreadableImageError] = {}
    if isinstance(images, np.ndarray):
        contents = {at: np.ascontiguousarray(image).data for at, image in enumerate(images)}
        embeddings = model.embed_pictures(images)
    else:
        # Read once, so that the checksums are those of what is embedded.
        contents, errors = _read(images, skip_unreadable)
        paths, read = [images[at] for at in contents], list(contents)
        embeddings, broken = model.embed_batch(paths, skip_unreadable, list(contents.values()))
        errors.update({read[at]: error for at, error in broken.items()})
    readable = [at for at in contents if at not in errors]
    checksums = [_sha256(contents[at]) for at in readable]
    positions = range(len(source.names))[rows]
    check_finite_embeddings(embeddings, [source.names[positions[at]] for at in readable])
    return _Embedded(
        embeddings,
        [positions[at] for at in readable],
        checksums,
        [(positions[at], error.summary) for at, error in sorted(errors.items())],
    )


def _read(
    paths: Sequence[FileOrBytes], skip_unreadable: bool
) -> tuple[dict[int, bytes], dict[int, UnreadableImageError]]:
    """Returns {position: bytes} of the files that can be opened, and {position: error} of the others."""
    contents, errors = {}, {}
    for position, path in enumerate(paths):
        try:
            contents[position] = read_contents([path])[0]
        except UnreadableImageError as error:
            if not skip_unreadable:
                raise
            errors[position] = error
    return contents, errors


def _sha256(data: Union[bytes, memoryview]) -> str:
    return hashlib.sha256(data).hexdigest()


def _write(folder: ShardFolder, job: Job, number: int, key: str, parts: list[_Embedded]) -> None:
    options, source = job.options, job.source
    embeddings = np.concatenate([part.embeddings for part in parts])
    positions = [position for part in parts for position in part.positions]
    classes = source.classes
    rows = Rows(
        [source.names[position] for position in positions],
        ["" if classes is None else classes[position] for position in positions],
        [checksum for part in parts for checksum in part.checksums],
        to_stored(embeddings, options.dtype, job.scale),
    )
    sampled = np.zeros(len(positions), bool) if job.in_sample is None else job.in_sample[positions]
    record = {
        "key": key,
        "num_images": len(positions),
        "embedding_dim": embeddings.shape[1],
        "clipped": num_clipped(embeddings, options.dtype, job.scale),
        "unreadable": [[source.names[at], reason] for part in parts for at, reason in part.unreadable],
    }
    folder.write(number, options.format, rows, job.about(), record, embeddings[sampled])
