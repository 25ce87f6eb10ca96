"""The folder of an index: its files, their checksums, and when a folder is refused.

A finished index is `index.json`, written last, and the files that it names. `chunks/` holds what is embedded
already while an index is built.

Shapes: N images, D embedding dimension.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tokenize
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np

from profs_tf.search.chunks import Chunk, ChunkFolder
from profs_tf.utils.files import locked, replacing, write_atomically

# 2: the embedder's hash is that of its weights, and every file has a checksum.
FORMAT = 2
_MANIFEST_TYPES = {
    "embedder": str,
    "embedder_sha256": str,
    "root": str,
    "embedding_dim": int,
    "normalized": bool,
    "embeddings": str,
    "images": str,
    "checksums": dict,
}
# One value for each image; classes are optional.
_COLUMN_TYPES = {"names": str, "sizes": int, "mtimes_ns": int, "classes": str}
_BLOCK_BYTES = 1 << 20


class IndexFolder:
    """Reads and writes the files of an index.

    Attributes:
        path: The folder.
        chunks: What is embedded already, while the index is built.
    """

    def __init__(self, path: Union[str, os.PathLike]) -> None:
        """Names the folder; touches nothing."""
        if not path:
            raise ValueError("`index` must name a folder for the index. Pass --index=FOLDER.")
        self.path = Path(path).expanduser()
        self.chunks = ChunkFolder(self.path / "chunks")
        self._manifest, self._lock = self.path / "index.json", self.path / "build.lock"

    @contextlib.contextmanager
    def building(self, identity: dict[str, Any], overwrite: bool) -> Iterator[None]:
        """Creates the folder or continues with its content; no other process can build it meanwhile.

        Args:
            identity: `embedder_sha256` and `root`, which must not change between builds.
            overwrite: Whether an index of another identity is replaced.

        Raises:
            FileExistsError: If the folder holds something other than an index.
            NotADirectoryError: If it is a file or below one.
            PermissionError: If it cannot be written.
            ValueError: If it holds an index of another embedder, of other pictures or of another format, or
                another process is building it.
        """
        if self.path.exists() and not self.path.is_dir():
            raise NotADirectoryError(f"`index` must be a folder, got the file {self.path}.")
        if above := next((parent for parent in self.path.parents if parent.is_file()), None):
            raise NotADirectoryError(f"`index` must be in a folder, got {self.path}, below the file {above}.")
        content = set(self.path.iterdir()) if self.path.exists() else set()
        if not self._manifest.exists() and content - {self.chunks.path, self._lock}:
            raise FileExistsError(
                f"`index` must be empty or an index, got {self.path}. Choose another folder."
            )
        with contextlib.ExitStack() as stack:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locked(self._lock, "index"))
            except PermissionError as error:
                raise PermissionError(
                    f"`index` must be writable, got {self.path}: {error.strerror}. Choose another folder."
                ) from error
            if not overwrite:
                self._check_identity(identity)
            self.chunks.begin(identity)
            yield

    def _check_identity(self, wanted: dict[str, Any]) -> None:
        """Raises ValueError if the finished index, or the one that was begun, is another one."""
        finished = self.read_manifest() if self._manifest.exists() else None
        for found in (finished, self.chunks.identity()):
            if found is None:
                continue
            if found.get("embedder_sha256") != wanted["embedder_sha256"]:
                raise ValueError(
                    f"`embedder` must be the one of the index {self.path}, SHA-256 "
                    f"{found.get('embedder_sha256')}, got {wanted['embedder_sha256']}. Pass "
                    "`overwrite=True` to embed everything with the new one."
                )
            if found.get("root") != wanted["root"]:
                raise ValueError(
                    f"`index` must be empty or of the same pictures, got {self.path} of "
                    f"{found.get('root') or 'a data set'}. Choose another folder, or pass "
                    "`overwrite=True` to replace the index."
                )

    def read_manifest(self) -> dict[str, Any]:
        """Returns index.json.

        Raises:
            FileNotFoundError: If there is no finished index.
            ValueError: If it has another format, or is damaged.
        """
        if not self._manifest.exists():
            begun = (
                " It was begun, but not finished: build it again to go on." if self.chunks.is_begun() else ""
            )
            raise FileNotFoundError(
                f"`index` must be the folder of an index, but {self._manifest} is missing.{begun}"
            )
        manifest = _parse(self._manifest)
        if manifest.get("format") != FORMAT:
            raise ValueError(
                f"`index` must have format {FORMAT}, got {manifest.get('format')} in {self._manifest}. "
                "Rebuild it with `overwrite=True`."
            )
        types = {**_MANIFEST_TYPES, **({"pictures": str} if "pictures" in manifest else {})}
        if not all(isinstance(manifest.get(key), kind) for key, kind in types.items()):
            raise _damaged(self._manifest, "its keys are not those of an index")
        if manifest.pop("checksum", None) != _manifest_checksum(manifest):
            raise _damaged(self._manifest, "its checksum differs")
        return manifest

    def read_images(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Returns the table of the images of a finished index.

        Raises:
            ValueError: If it is damaged.
        """
        path = self._checked_file(manifest, "images")
        table = _parse(path)
        if not _is_table(table):
            raise _damaged(path, "its columns are not those of an index")
        return table

    def open_array(
        self, manifest: dict[str, Any], name: str, shape: Optional[tuple[int, ...]] = None
    ) -> np.ndarray:
        """Maps the embeddings or the pictures of a finished index into memory, read-only.

        Reads the file once for its checksum.

        Raises:
            ValueError: If the file is damaged, or its array has another shape.
        """
        path = self._checked_file(manifest, name)
        try:
            array = np.lib.format.open_memmap(path, mode="r")
        # TokenError: of a damaged header.
        except (OSError, ValueError, EOFError, tokenize.TokenError) as error:
            raise _damaged(path, error) from error
        if shape not in (None, array.shape):
            raise _damaged(path, f"its shape is {array.shape} instead of {shape}")
        return array

    def _checked_file(self, manifest: dict[str, Any], name: str) -> Path:
        """Returns the path of a file that the manifest names; raises ValueError if its checksum differs."""
        path = self.path / manifest[name]
        try:
            checksum = _file_checksum(path)
        except OSError as error:
            raise _damaged(path, error) from error
        if checksum != manifest["checksums"].get(name):
            raise _damaged(path, "its checksum differs")
        return path

    def publish(
        self,
        identity: dict[str, Any],
        keys: list[str],
        chunks: Iterable[Chunk],
        table: dict[str, Any],
        pictures: Optional[np.ndarray],
    ) -> None:
        """Writes the finished index and removes the files that it replaces.

        Args:
            identity: Further entries of the manifest: embedder and root.
            keys: The chunks' keys.
            chunks: The `Chunk` of each key, one after another; only one is in memory at a time.
            table: Columns of the images, and `chunks`.
            pictures: uint8 `[N, H, W, 3]` to keep in the index, or None.
        """
        name = hashlib.sha256("".join(keys).encode()).hexdigest()[:16]
        files = {"embeddings": f"embeddings-{name}.npy", "images": f"images-{name}.json"}
        shape, normalized = self._write_embeddings(self.path / files["embeddings"], chunks, table)
        write_atomically(self.path / files["images"], json.dumps(table) + "\n")
        if pictures is not None:
            files["pictures"] = f"pictures-{name}.npy"
            with replacing(self.path / files["pictures"]) as file:
                np.save(file, pictures)
        manifest = {
            "format": FORMAT,
            **identity,
            "num_images": shape[0],
            "embedding_dim": shape[1],
            "normalized": normalized,
            **files,
            "checksums": {kind: _file_checksum(self.path / file) for kind, file in files.items()},
        }
        manifest["checksum"] = _manifest_checksum(manifest)
        write_atomically(self._manifest, json.dumps(manifest, indent=2) + "\n")
        self.chunks.remove()
        for kind in ("embeddings", "images", "pictures"):
            for path in self.path.glob(f"{kind}-*"):
                if path.name not in files.values():
                    path.unlink()

    def _write_embeddings(
        self, path: Path, chunks: Iterable[Chunk], table: dict[str, Any]
    ) -> tuple[tuple[int, int], bool]:
        """Writes all chunks into one file; returns its shape and whether all embeddings have length 1."""
        shape, normalized = (len(table["names"]), 0), True
        with replacing(path) as file:
            for number, chunk in enumerate(chunks):
                if number == 0:
                    shape = (shape[0], chunk.embeddings.shape[1])
                    np.lib.format.write_array_header_1_0(
                        file, {"descr": "<f4", "fortran_order": False, "shape": shape}
                    )
                file.write(np.ascontiguousarray(chunk.embeddings, "<f4").tobytes())
                lengths = np.linalg.norm(chunk.embeddings.astype(np.float64), axis=1)
                normalized &= bool((np.abs(lengths - 1.0) < 1e-3).all())
        return shape, normalized


def _parse(path: Path) -> dict[str, Any]:
    """Returns the JSON object of a file; raises ValueError if it is damaged."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise _damaged(path, error) from error
    if not isinstance(found, dict):
        raise _damaged(path, "its keys are not those of an index")
    return found


def _is_table(table: dict[str, Any]) -> bool:
    columns = dict(_COLUMN_TYPES)
    if table.get("classes", "missing") is None:
        del columns["classes"]
    if not all(isinstance(table.get(name), list) for name in (*columns, "chunks", "unreadable")):
        return False
    length = len(table["names"])
    return all(isinstance(pair, list) and len(pair) == 2 for pair in table["unreadable"]) and all(
        len(table[name]) == length and all(isinstance(value, kind) for value in table[name])
        for name, kind in columns.items()
    )


def _damaged(path: Path, reason: object) -> ValueError:
    return ValueError(
        f"`index` must be whole, but {path} is not: {reason}. Rebuild it with `overwrite=True`."
    )


def _manifest_checksum(manifest: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(manifest, sort_keys=True).encode())


def _file_checksum(path: Path) -> int:
    """Returns the CRC-32 of a file, read in blocks."""
    checksum = 0
    with open(path, "rb") as file:
        while block := file.read(_BLOCK_BYTES):
            checksum = zlib.crc32(block, checksum)
    return checksum
