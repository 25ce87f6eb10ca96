"""Writes an index: a new one, further rows, removed rows, a faiss index. The manifest is replaced last.

Whatever is killed before leaves the old index: files are new ones or grow at their end.

Shapes: N images.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Optional

import numpy as np

from profs_tf.search.checked_files import append_line, append_rows, file_checksum
from profs_tf.search.chunks import Chunk, write_chunks
from profs_tf.search.manifest import BUILT, CHANGED, copied, write_manifest
from profs_tf.search.storage import IndexFolder, OpenedIndex
from profs_tf.utils.files import replacing, write_atomically


def publish(
    folder: IndexFolder,
    identity: dict[str, Any],
    keys: list[str],
    chunks: Iterable[Chunk],
    table: dict[str, Any],
    pictures: Optional[np.ndarray],
) -> None:
    """Writes the finished index and removes the files that it replaces.

    Args:
        folder: Of the index, within `building`.
        identity: Further entries of the manifest: embedder and root.
        keys: The chunks' keys.
        chunks: The `Chunk` of each key, one after another; only one is in memory at a time.
        table: Columns of the images, and `chunks`.
        pictures: uint8 `[N, H, W, 3]` to keep in the index, or None.
    """
    old = folder.finished_manifest()
    name = hashlib.sha256("".join(keys).encode()).hexdigest()[:16]
    if "changes" in old:
        # Until the manifest is replaced the old files must stay as they are, also those of the same keys.
        name = hashlib.sha256(f"{name} after {old['embeddings']}".encode()).hexdigest()[:16]
    text = json.dumps(table) + "\n"
    columns = hashlib.sha256(text.encode()).hexdigest()[:16]
    files = {"embeddings": f"embeddings-{name}.npy", "images": f"images-{columns}.json"}
    shape, normalized = write_chunks(folder.path / files["embeddings"], chunks, len(table["names"]))
    write_atomically(folder.path / files["images"], text)
    if pictures is not None:
        files["pictures"] = f"pictures-{name}.npy"
        with replacing(folder.path / files["pictures"]) as file:
            np.save(file, pictures)
    checksums = {kind: file_checksum(folder.path / file) for kind, file in files.items()}
    manifest = {
        "format": BUILT,
        **identity,
        "num_images": shape[0],
        "embedding_dim": shape[1],
        "normalized": normalized,
        **files,
        "checksums": checksums,
    }
    if "changes" not in old and old.get("checksums", {}).get("embeddings") == checksums["embeddings"]:
        # Of the same embeddings.
        manifest.update({key: old[key] for key in ("faiss", "faiss_options") if key in old})
        checksums.update({key: old["checksums"][key] for key in ("faiss",) if key in old["checksums"]})
    write_manifest(folder.manifest_path, manifest)
    folder.chunks.remove()
    _remove_others(folder, manifest)


def append_images(
    folder: IndexFolder,
    opened: OpenedIndex,
    chunks: Iterable[Chunk],
    table: dict[str, Any],
    pictures: Optional[np.ndarray],
) -> None:
    """Adds rows to the index within `changing`; a kill leaves the old index. Arguments: see `publish`."""
    manifest = copied(opened.manifest)
    rows, checksums = len(opened.table.names), manifest["checksums"]

    def blocks() -> Iterator[np.ndarray]:
        for chunk in chunks:
            manifest["normalized"] &= chunk.is_normalized
            yield chunk.embeddings

    path = folder.path / manifest["embeddings"]
    checksums["embeddings"] = append_rows(path, rows, blocks(), checksums["embeddings"])
    if pictures is not None:
        path = folder.path / manifest["pictures"]
        checksums["pictures"] = append_rows(path, rows, [pictures], checksums["pictures"])
    _record(folder, manifest, {"added": table}, len(table["names"]))
    if folder.chunks.is_begun():
        folder.chunks.remove()


def record_removed(folder: IndexFolder, opened: OpenedIndex, rows: list[int]) -> None:
    """Records rows as removed within `changing`; a kill leaves the old index."""
    _record(folder, copied(opened.manifest), {"removed": rows}, -len(rows))


def store_faiss(
    folder: IndexFolder, opened: OpenedIndex, write: Callable[[Path], None], options: dict[str, Any]
) -> Path:
    """Writes a faiss index of all rows within `changing`, and removes the old one; returns its path."""
    manifest = copied(opened.manifest)
    path = folder.path / f"faiss-{uuid.uuid4().hex[:16]}.index"
    write(path)
    checksums = manifest["checksums"]
    checksums["faiss"] = file_checksum(path)
    bound = {"rows": len(opened.table.names), "embeddings_checksum": checksums["embeddings"]}
    manifest.update(faiss=path.name, faiss_options={**options, **bound})
    write_manifest(folder.manifest_path, manifest)
    _remove_others(folder, manifest)
    return path


def _record(folder: IndexFolder, manifest: dict[str, Any], change: dict[str, Any], images: int) -> None:
    """Writes a change, and the manifest that makes it valid."""
    name = manifest.setdefault("changes", manifest["embeddings"].replace("embeddings", "changes") + ".jsonl")
    length = manifest.get("changes_bytes", 0)
    line = json.dumps(change).encode() + b"\n"
    checksums = manifest["checksums"]
    checksums["changes"] = append_line(folder.path / name, line, length, checksums.get("changes", 0))
    manifest.update(
        format=CHANGED,
        num_images=manifest["num_images"] + images,
        changes_bytes=length + len(line),
    )
    write_manifest(folder.manifest_path, manifest)


def _remove_others(folder: IndexFolder, manifest: dict[str, Any]) -> None:
    """Removes the files that the manifest does not name."""
    for kind in ("embeddings", "images", "pictures", "changes", "faiss"):
        for path in folder.path.glob(f"{kind}-*"):
            if path.name != manifest.get(kind):
                path.unlink()
