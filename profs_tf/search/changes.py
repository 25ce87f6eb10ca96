"""Adds images to a finished index, and removes some, without building it again."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, Optional, Union

from profs_tf.datasets.image_list import ImageList
from profs_tf.search.builder import FinishedIndex, embed_source
from profs_tf.search.source import IndexSource, added_source
from profs_tf.search.storage import IndexFolder
from profs_tf.search.table import ImageTable
from profs_tf.search.writing import append_images, record_removed
from profs_tf.serving.loaded import SavedEmbedder
from profs_tf.utils.checks import check_count


def add_to_index(
    images: Union[str, os.PathLike, Sequence[Union[str, os.PathLike]], ImageList],
    path: Union[str, os.PathLike],
    *,
    embedder: Optional[Union[str, os.PathLike]] = None,
    batch_size: int = 128,
    skip_unreadable: bool = False,
    progress: bool = False,
) -> None:
    """Embeds pictures and appends them to a finished index; see `ImageIndex.add`."""
    check_count("batch_size", batch_size)
    folder = IndexFolder(path)
    with folder.changing() as opened:
        manifest, table = opened.manifest, opened.table
        source = added_source(
            images, manifest["root"], table.classes is not None, "pictures" in manifest, len(table.names)
        )
        _refuse_known(source, table)
        model = open_embedder(manifest, path, embedder)
        folder.chunks.begin({name: manifest[name] for name in ("embedder", "embedder_sha256", "root")})
        embedded = embed_source(
            source, model, folder, FinishedIndex(folder), batch_size, skip_unreadable, progress
        )
        rows = len(table.names)
        for chunk in embedded.table["chunks"]:
            chunk[1:3] = chunk[1] + rows, chunk[2] + rows
        append_images(folder, opened, embedded.chunks(), embedded.table, embedded.pictures)


def remove_from_index(names: Union[str, Iterable[str]], path: Union[str, os.PathLike]) -> None:
    """Records images as removed; see `ImageIndex.remove`."""
    wanted = {names} if isinstance(names, str) or not hasattr(names, "__iter__") else set(names)
    folder = IndexFolder(path)
    with folder.changing() as opened:
        table, rows = opened.table, opened.table.live_rows()
        found = [int(row) for row in rows if table.names[row] in wanted]
        missing = wanted.difference(table.names[row] for row in found)
        if missing or not wanted:
            first = f"{min(missing, key=str)!r}" if missing else "none"
            raise ValueError(
                f"`names` must be names of images in the index, got {first}. Names look like "
                f"{table.names[rows[0]]!r}."
            )
        if len(found) == len(rows):
            raise ValueError(
                f"`names` must leave an image in the index, got all {len(rows)}. Delete its folder."
            )
        record_removed(folder, opened, found)


def open_embedder(
    manifest: dict[str, Any],
    path: Union[str, os.PathLike],
    embedder: Optional[Union[str, os.PathLike]],
) -> SavedEmbedder:
    """Opens the embedder of an index, at its own path or at another one.

    Raises:
        FileNotFoundError: If there is none.
        ValueError: If it is not the one that built the index.
    """
    if not manifest["embedder_sha256"]:
        raise ValueError(
            f"`index` must know its embedder where pictures are embedded, got {path}, made of embeddings "
            "alone. Make it again with `embedder=FOLDER`, or pass embeddings."
        )
    model = SavedEmbedder(embedder or manifest["embedder"])
    if model.sha256 != manifest["embedder_sha256"]:
        raise ValueError(
            f"`embedder` must be the one of the index {path}, SHA-256 {manifest['embedder_sha256']}, "
            f"got {model.path} with {model.sha256}. Rebuild the index with it and `overwrite=True`."
        )
    return model


def _refuse_known(source: IndexSource, table: ImageTable) -> None:
    """Raises ValueError if a picture is in the index already, or twice among the new ones."""
    known = {table.names[row] for row in table.live_rows()}
    for name in source.names:
        if name in known:
            raise ValueError(
                f"`images` must not be in the index, and not twice, got {name}. Remove it from the index "
                "first, or build the index again, which embeds what has changed."
            )
        known.add(name)
