"""Embeds pictures into an index: in parallel, in bounded memory; a kill loses at most the current chunks.

Shapes: N images, n images of a chunk, D embedding dimension.
"""

from __future__ import annotations

import collections
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Optional, Union

import numpy as np
from tqdm import tqdm

from profs_tf.datasets.image_list import ImageList
from profs_tf.metrics.arguments import check_embeddings
from profs_tf.search.chunks import Chunk
from profs_tf.search.refusals import refuse_lost, refuse_others, refuse_unreadable
from profs_tf.search.source import UNKNOWN, IndexSource, Stamp, source_of
from profs_tf.search.storage import IndexFolder
from profs_tf.search.table import ImageTable
from profs_tf.search.writing import publish
from profs_tf.serving.loaded import SavedEmbedder
from profs_tf.serving.saved_model import check_finite_embeddings
from profs_tf.utils.array_types import Array
from profs_tf.utils.checks import check_count
from profs_tf.utils.threads import in_threads

# Given embeddings that are written together.
_ROWS = 65_536


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

    Threads, one for each core, read, decode and embed a few batches each. The batches depend on the pictures
    alone, so an index whose build was killed and continued equals, bit for bit, one built in a single run.
    """
    check_count("batch_size", batch_size)
    source, model, folder = source_of(images), SavedEmbedder(embedder), IndexFolder(path)
    identity = {"embedder": model.path, "embedder_sha256": model.sha256, "root": source.root}
    with folder.building(identity, overwrite):
        finished = FinishedIndex(folder)
        if not overwrite:
            refuse_others(source, folder.path, finished.table)
            refuse_lost(source, folder)
        embedded = embed_source(source, model, folder, finished, batch_size, skip_unreadable, progress)
        publish(folder, identity, embedded.keys, embedded.chunks(), embedded.table, embedded.pictures)


def index_embeddings(
    embeddings: Array,
    names: Sequence[str],
    path: Union[str, os.PathLike],
    *,
    class_names: Optional[Sequence[str]] = None,
    embedder: Optional[Union[str, os.PathLike]] = None,
    root: Union[str, os.PathLike] = "",
    overwrite: bool = False,
) -> None:
    """Writes the index of given embeddings; see `ImageIndex.from_embeddings`."""
    embeddings = check_embeddings(embeddings)
    names = list(names)
    for argument, values in (("names", names), ("class_names", class_names)):
        if values is not None and len(values) != len(embeddings):
            raise ValueError(f"`{argument}` must be {len(embeddings)}, one an embedding, got {len(values)}.")
    for argument, values in (("names", names), ("class_names", class_names or ())):
        wrong = next((value for value in values if not isinstance(value, str)), None)
        if wrong is not None:
            raise ValueError(f"`{argument}` must be texts, got {wrong!r}. Convert them by `str`.")
    if len(set(names)) < len(names):
        double = next(name for name, count in collections.Counter(names).items() if count > 1)
        raise ValueError(f"`names` must be different, got {double!r} twice.")
    parts = [slice(start, start + _ROWS) for start in range(0, len(embeddings), _ROWS)]
    largest = max(float(np.abs(embeddings[part]).max()) for part in parts)
    if largest > float(np.finfo(np.float32).max):
        raise ValueError(f"`embeddings` must fit float32, got a value of {largest:g}. Scale them down.")
    folder = IndexFolder(path)
    if folder.manifest_path.exists() and not overwrite:
        raise FileExistsError(
            f"`path` must be an empty folder, got the index {path}. Choose another, or pass `overwrite=True`."
        )
    model = SavedEmbedder(embedder) if embedder else None
    identity = {
        "embedder": model.path if model else "",
        "embedder_sha256": model.sha256 if model else "",
        "root": os.path.abspath(os.path.expanduser(root)) if root else "",
    }
    keys = [hashlib.sha256(np.asarray(embeddings[part], "<f4").tobytes()).hexdigest() for part in parts]
    table = {
        "names": names,
        "sizes": [UNKNOWN[0]] * len(names),
        "mtimes_ns": [UNKNOWN[1]] * len(names),
        "chunks": [],
        "unreadable": [],
        "classes": None if class_names is None else list(class_names),
    }
    with folder.building(identity, overwrite):
        chunks = (Chunk(np.asarray(embeddings[part], np.float32), []) for part in parts)
        publish(folder, identity, keys, chunks, table, None)


class Embedded(NamedTuple):
    """Embedded pictures: `chunks` reads them one after another."""

    keys: list[str]
    chunks: Callable[[], Iterator[Chunk]]
    table: dict[str, Any]
    pictures: Optional[np.ndarray]


def embed_source(
    source: IndexSource,
    model: SavedEmbedder,
    folder: IndexFolder,
    finished: FinishedIndex,
    batch_size: int,
    skip_unreadable: bool,
    progress: bool,
) -> Embedded:
    """Embeds pictures chunk by chunk, except the chunks that the folder or the finished index has already.

    Raises:
        UnreadableImageError: If a picture cannot be read, unless `skip_unreadable`.
        ValueError: If no picture can be read.
    """
    parts = source.chunks()
    stamps = [source.stamps(part) for part in parts]
    keys = [_key(model, batch_size, chunk_stamps) for chunk_stamps in stamps]
    chunks = folder.chunks

    def read(key: str) -> Chunk:
        # A chunk that was embedded again replaces that of the finished index.
        return chunks.read(key) if chunks.has(key) else finished.read(key)

    def unreadable_of(key: str) -> list[list[Any]]:
        return chunks.read(key).unreadable if chunks.has(key) else finished.unreadable(key)

    def is_kept(key: str, part: slice) -> bool:
        """Whether a chunk is embedded, and what was unreadable in it still is."""
        if not (finished.has(key) or chunks.has(key)):
            return False
        return not any(source.is_readable(part.start + position) for position, _ in unreadable_of(key))

    missing = [(key, part) for key, part in zip(keys, parts) if not is_kept(key, part)]
    num_images = len(source.names)
    done = num_images - sum(part.stop - part.start for _, part in missing)
    with tqdm(
        total=num_images, initial=done, desc="index", unit=" images", disable=None if progress else True
    ) as bar:
        for key, chunk in _embed_chunks(source, model, missing, batch_size, skip_unreadable, bar):
            chunks.write(key, chunk)

    unreadable = {key: unreadable_of(key) for key in keys}
    if not skip_unreadable:
        refuse_unreadable(unreadable)
    table = _table(source, keys, parts, stamps, unreadable)
    if not table["names"]:
        raise ValueError(f"`images` must hold a picture that can be read, got none of {num_images}.")
    pictures = source.images if isinstance(source.images, np.ndarray) else None
    return Embedded(keys, lambda: map(read, keys), table, pictures)


def _key(model: SavedEmbedder, batch_size: int, stamps: list[Stamp]) -> str:
    """Returns the hash of everything a chunk's embeddings depend on."""
    return hashlib.sha256(json.dumps([model.sha256, batch_size, stamps]).encode()).hexdigest()


def _embed_chunks(
    source: IndexSource,
    model: SavedEmbedder,
    missing: list[tuple[str, slice]],
    batch_size: int,
    skip_unreadable: bool,
    bar: tqdm,
) -> Iterator[tuple[str, Chunk]]:
    """Yields key and `Chunk` of each missing chunk, in order."""
    batches = [
        (key, slice(start, min(start + batch_size, part.stop)), part)
        for key, part in missing
        for start in range(part.start, part.stop, batch_size)
    ]

    def embed(item: tuple[str, slice, slice]) -> tuple[str, slice, slice, np.ndarray, dict[int, str]]:
        key, batch, part = item
        return (key, batch, part, *_embed_batch(source, model, batch, skip_unreadable))

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
    source: IndexSource, model: SavedEmbedder, batch: slice, skip_unreadable: bool
) -> tuple[np.ndarray, dict[int, str]]:
    """Returns the embeddings, and {position in the batch: reason} of the unreadable pictures."""
    embeddings, errors = model.embed_batch(source.images[batch], skip_unreadable)
    names = source.names[batch]
    check_finite_embeddings(embeddings, [name for at, name in enumerate(names) if at not in errors])
    return embeddings, {position: error.summary for position, error in errors.items()}


def _table(
    source: IndexSource,
    keys: list[str],
    parts: list[slice],
    stamps: list[list[Stamp]],
    unreadable: dict[str, list[list[Any]]],
) -> dict[str, Any]:
    """Returns the columns of the indexed images, and which rows each chunk has."""
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


class FinishedIndex:
    """The chunks of the finished index in the folder, which a new build reuses.

    Attributes:
        table: Of the index; None if there is none yet, or its chunks cannot be used.
    """

    def __init__(self, folder: IndexFolder) -> None:
        """Opens the index, which reads its files once for their checksums."""
        self.table: Optional[ImageTable] = None
        self._chunks: dict[str, tuple[slice, list[list[Any]]]] = {}
        try:
            opened = folder.open()
        except (FileNotFoundError, ValueError):
            # None yet, or one whose chunks cannot be used.
            return
        self.table, self._embeddings = opened.table, opened.embeddings
        self._chunks = {
            key: (slice(start, stop), unreadable) for key, start, stop, unreadable in opened.table.chunks
        }

    def has(self, key: str) -> bool:
        """Whether a chunk is in the index."""
        return key in self._chunks

    def unreadable(self, key: str) -> list[list[Any]]:
        """Returns what `Chunk.unreadable` of a chunk is, without its embeddings."""
        return self._chunks[key][1]

    def read(self, key: str) -> Chunk:
        """Returns a chunk, with a copy of its embeddings."""
        rows, unreadable = self._chunks[key]
        return Chunk(np.array(self._embeddings[rows]), unreadable)
