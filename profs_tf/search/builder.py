"""Embeds pictures into an index: in parallel, in bounded memory, and so that a kill costs a chunk at most.

Shapes: N images, D embedding dimension.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from typing import Any, Union

import numpy as np
from tqdm import tqdm

from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.decoding import UnreadableImageError
from profs_tf.search.source import IndexSource, Stamp, source_of
from profs_tf.search.storage import Chunk, IndexFolder
from profs_tf.serving.loaded import SavedEmbedder
from profs_tf.utils.threads import in_threads


def build_index(
    images: Union[str, os.PathLike, ImageList],
    embedder: Union[str, os.PathLike],
    path: Union[str, os.PathLike],
    *,
    batch_size: int = 128,
    skip_unreadable: bool = False,
    overwrite: bool = False,
    progress: bool = False,
) -> None:
    """Writes the index of a folder's pictures, or of an `ImageList`; see `ImageIndex.build`.

    Files are read, decoded and embedded in as many threads as there are cores, a few batches each. Batches
    are cut alike whatever is done already, so an index that was killed and built on is that of one run, to
    the bit.
    """
    if batch_size < 1:
        raise ValueError(f"`batch_size` must be >= 1, got {batch_size}.")
    source, model, folder = source_of(images), SavedEmbedder(embedder), IndexFolder(path)
    identity = {"embedder": model.path, "embedder_sha256": model.sha256, "root": source.root}
    folder.begin(identity, overwrite)
    parts = source.chunks()
    stamps = [source.stamps(part) for part in parts]
    keys = [_key(model, batch_size, chunk_stamps) for chunk_stamps in stamps]
    finished = _Finished(folder)
    missing = [
        (key, part) for key, part in zip(keys, parts) if not (finished.has(key) or folder.has_chunk(key))
    ]
    done = len(source.names) - sum(part.stop - part.start for _, part in missing)
    with tqdm(
        total=len(source.names), initial=done, desc="index", unit=" images", disable=not progress
    ) as bar:
        for key, chunk in _embedded(source, model, missing, batch_size, skip_unreadable, bar):
            folder.write_chunk(key, chunk)

    def read(key: str) -> Chunk:
        return finished.read(key) if finished.has(key) else folder.read_chunk(key)

    unreadable = {key: read(key).unreadable for key in keys}
    if not skip_unreadable:
        _refuse_unreadable(unreadable)
    table = _table(source, keys, parts, stamps, unreadable)
    if not table["names"]:
        raise ValueError(f"`images` must hold a picture that can be read, got none of {len(source.names)}.")
    pictures = source.images if isinstance(source.images, np.ndarray) else None
    folder.publish(identity, keys, (read(key) for key in keys), table, pictures)


def _key(model: SavedEmbedder, batch_size: int, stamps: list[Stamp]) -> str:
    """Returns the hash of what a chunk's embeddings depend on."""
    return hashlib.sha256(json.dumps([model.sha256, batch_size, stamps]).encode()).hexdigest()


def _embedded(
    source: IndexSource,
    model: SavedEmbedder,
    missing: list[tuple[str, slice]],
    batch_size: int,
    skip: bool,
    bar: tqdm,
) -> Iterator[tuple[str, Chunk]]:
    """Yields key and `Chunk` of each chunk that is missing, in order."""
    batches = [
        (key, slice(start, min(start + batch_size, part.stop)), part)
        for key, part in missing
        for start in range(part.start, part.stop, batch_size)
    ]

    def embed(item: tuple[str, slice, slice]) -> tuple[str, slice, slice, np.ndarray, dict[int, str]]:
        key, batch, part = item
        return (key, batch, part, *_embed_batch(source, model, batch, skip))

    embeddings: list[np.ndarray] = []
    unreadable: list[list[Any]] = []
    for key, batch, part, embedded, errors in in_threads(embed, batches):
        embeddings.append(embedded)
        unreadable += [[batch.start - part.start + position, reason] for position, reason in errors.items()]
        bar.update(batch.stop - batch.start)
        if batch.stop == part.stop:
            yield key, Chunk(np.concatenate(embeddings), unreadable)
            embeddings, unreadable = [], []


def _embed_batch(
    source: IndexSource, model: SavedEmbedder, batch: slice, skip: bool
) -> tuple[np.ndarray, dict[int, str]]:
    """Returns embeddings and {position in the batch: reason} of the pictures that cannot be read."""
    images = source.images[batch]
    if isinstance(images, np.ndarray):
        return model.embed_pictures(images), {}
    try:
        return model.embed_files(images), {}
    except UnreadableImageError:
        if not skip:
            raise
    embeddings, errors = model.embed_readable_files(images)
    return embeddings, {position: error.summary for position, error in errors.items()}


def _refuse_unreadable(unreadable: dict[str, list[list[Any]]]) -> None:
    """Raises the error of a picture that an earlier run skipped, where this one is not to."""
    for errors in unreadable.values():
        for _, reason in errors:
            raise UnreadableImageError(reason)


def _table(
    source: IndexSource,
    keys: list[str],
    parts: list[slice],
    stamps: list[list[Stamp]],
    unreadable: dict[str, list[list[Any]]],
) -> dict[str, Any]:
    """Returns the columns of the images that are in the index, and the chunks' places."""
    table: dict[str, list[Any]] = {"names": [], "sizes": [], "mtimes_ns": [], "chunks": [], "unreadable": []}
    classes: list[str] = []
    for key, part, chunk_stamps in zip(keys, parts, stamps):
        skipped = dict(unreadable[key])
        start = len(table["names"])
        for position, (name, size, mtime, _) in enumerate(chunk_stamps):
            if position in skipped:
                table["unreadable"].append([name, skipped[position]])
                continue
            table["names"].append(name)
            table["sizes"].append(size)
            table["mtimes_ns"].append(mtime)
            if source.classes is not None:
                classes.append(source.classes[part.start + position])
        table["chunks"].append([key, start, len(table["names"]), unreadable[key]])
    return {**table, "classes": None if source.classes is None else classes}


class _Finished:
    """The chunks of a finished index that is built anew."""

    def __init__(self, folder: IndexFolder) -> None:
        self._places: dict[str, tuple[slice, list[list[Any]]]] = {}
        try:
            manifest = folder.read_manifest()
            self._embeddings = folder.open_array(manifest, "embeddings")
            chunks = folder.read_images(manifest)["chunks"]
        except (FileNotFoundError, ValueError):
            # None yet, or one whose chunks cannot be used.
            return
        self._places = {key: (slice(start, stop), unreadable) for key, start, stop, unreadable in chunks}

    def has(self, key: str) -> bool:
        return key in self._places

    def read(self, key: str) -> Chunk:
        place, unreadable = self._places[key]
        return Chunk(np.array(self._embeddings[place]), unreadable)
