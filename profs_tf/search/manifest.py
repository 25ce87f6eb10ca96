"""The manifest of an index, index.json: which files the index has, and their checksums."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

from profs_tf.search.checked_files import damaged, parse_object
from profs_tf.utils.files import write_atomically

# The embedder's hash is that of its weights, and every file has a checksum.
BUILT = 2
# Images were added or removed since the index was built.
CHANGED = 3
_TYPES = {
    "embedder": str,
    "embedder_sha256": str,
    "root": str,
    "num_images": int,
    "embedding_dim": int,
    "normalized": bool,
    "embeddings": str,
    "images": str,
    "checksums": dict,
}
_OPTIONAL_TYPES = {"pictures": str, "changes": str, "changes_bytes": int, "faiss": str}
_FAISS_TYPES = {
    "factory": str,
    "distance": str,
    "parameter": str,
    "value": int,
    "rows": int,
    "embeddings_checksum": int,
}


def read_manifest(path: Path) -> dict[str, Any]:
    """Returns the content of a manifest.

    Raises:
        ValueError: If it has another format, or is damaged.
    """
    manifest = parse_object(path)
    if manifest.get("format") not in (BUILT, CHANGED):
        raise ValueError(
            f"`index` must have format {BUILT} or {CHANGED}, got {manifest.get('format')} in {path}. "
            "Rebuild it with `overwrite=True`."
        )
    types = {**_TYPES, **{key: kind for key, kind in _OPTIONAL_TYPES.items() if key in manifest}}
    if not all(isinstance(manifest.get(key), kind) for key, kind in types.items()):
        raise damaged(path, "its keys are not those of an index")
    options = manifest.get("faiss_options", None if "faiss" in manifest else {})
    if not isinstance(options, dict) or (
        options and not all(isinstance(options.get(key), kind) for key, kind in _FAISS_TYPES.items())
    ):
        raise damaged(path, "its faiss index is not described")
    if manifest.pop("checksum", None) != _checksum(manifest):
        raise damaged(path, "its checksum differs")
    return manifest


def write_manifest(path: Path, manifest: dict[str, Any]) -> None:
    """Replaces a manifest in one step, which makes valid what was written before."""
    content = {**manifest, "checksum": _checksum(manifest)}
    write_atomically(path, json.dumps(content, indent=2) + "\n")


def copied(manifest: dict[str, Any]) -> dict[str, Any]:
    """Returns a copy that can be changed."""
    return {**manifest, "checksums": dict(manifest["checksums"])}


def _checksum(manifest: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(manifest, sort_keys=True).encode())
