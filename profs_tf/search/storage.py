"""The folder of an index: its files, their checksums, and when a folder is refused.

A finished index is `index.json`, written last, and the files that it names. What is added or removed later is
appended to them; then `index.json` is replaced. `chunks/` holds what is embedded already while an index is
built.

Shapes: N images, D embedding dimension.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any, NamedTuple, Optional, Union

import numpy as np

from profs_tf.search.checked_files import (
    check_file,
    damaged,
    open_rows,
    parse_object,
)
from profs_tf.search.chunks import ChunkFolder
from profs_tf.search.manifest import read_manifest
from profs_tf.search.table import ImageTable
from profs_tf.utils.files import expanded, is_refused, locked


class OpenedIndex(NamedTuple):
    """The content of a finished index.

    Attributes:
        manifest: index.json.
        table: The images.
        embeddings: float32 `[N, D]`, mapped into memory, of all rows of the table.
        pictures: uint8 `[N, H, W, 3]` likewise, or None if the table names files.
    """

    manifest: dict[str, Any]
    table: ImageTable
    embeddings: np.ndarray
    pictures: Optional[np.ndarray]


class IndexFolder:
    """Reads and writes the files of an index.

    Attributes:
        path: The folder.
        manifest_path: Of index.json.
        chunks: What is embedded already, while the index is built.
    """

    def __init__(self, path: Union[str, os.PathLike]) -> None:
        """Names the folder; touches nothing."""
        if not path:
            raise ValueError("`index` must name a folder for the index. Pass --index=FOLDER.")
        self.path = expanded(path)
        self.chunks = ChunkFolder(self.path / "chunks")
        self.manifest_path, self._lock = self.path / "index.json", self.path / "build.lock"

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
        # A build that was killed while it published leaves chunks and some of the finished files.
        begun = self.manifest_path.exists() or self.chunks.is_begun()
        if not begun and content - {self.chunks.path, self._lock}:
            raise FileExistsError(
                f"`index` must be empty or an index, got {self.path}. Choose another folder."
            )
        with contextlib.ExitStack() as stack:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locked(self._lock, "index"))
            except OSError as error:
                if not is_refused(error):
                    raise
                raise PermissionError(
                    f"`index` must be writable, got {self.path}: {error.strerror}. Choose another folder."
                ) from error
            if not overwrite:
                self._check_identity(identity)
            self.chunks.begin(identity)
            yield

    def _check_identity(self, wanted: dict[str, Any]) -> None:
        """Raises ValueError if the finished index, or the one that was begun, is another one."""
        finished = self.read_manifest() if self.manifest_path.exists() else None
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

    @contextlib.contextmanager
    def changing(self) -> Iterator[OpenedIndex]:
        """Opens a finished index to change it; no other process can change it meanwhile.

        Raises:
            FileNotFoundError: If there is none.
            PermissionError: If it cannot be written.
            ValueError: If it is damaged, or another process is changing it.
        """
        self.read_manifest()
        try:
            with locked(self._lock, "index"):
                yield self.open()
        except OSError as error:
            if not is_refused(error):
                raise
            raise PermissionError(f"`index` must be writable, got {self.path}: {error.strerror}.") from error

    def open(self) -> OpenedIndex:
        """Reads the finished index, all but the file of faiss, and checks the checksums.

        Raises:
            FileNotFoundError: If there is none.
            ValueError: If it has another format, or is damaged.
        """
        while True:
            manifest = self.read_manifest()
            try:
                return self._open(manifest)
            except ValueError:
                # Another process may have replaced the index, and removed the files of the old one.
                if self.read_manifest() == manifest:
                    raise

    def _open(self, manifest: dict[str, Any]) -> OpenedIndex:
        table = self._read_table(manifest)
        arrays = {}
        for kind in ("embeddings", "pictures"):
            if kind in manifest:
                path = self.path / manifest[kind]
                arrays[kind] = open_rows(path, len(table.names), manifest["checksums"].get(kind))
        embeddings = arrays["embeddings"]
        if embeddings.shape[1:] != (manifest["embedding_dim"],) or embeddings.dtype != np.float32:
            path = self.path / manifest["embeddings"]
            raise damaged(path, f"its shape is {embeddings.shape} and its type {embeddings.dtype}")
        return OpenedIndex(manifest, table, embeddings, arrays.get("pictures"))

    def read_manifest(self) -> dict[str, Any]:
        """Returns index.json.

        Raises:
            FileNotFoundError: If there is no finished index.
            ValueError: If it has another format, or is damaged.
        """
        if not self.manifest_path.exists():
            begun = (
                " It was begun, but not finished: build it again to go on." if self.chunks.is_begun() else ""
            )
            raise FileNotFoundError(
                f"`index` must be the folder of an index, but {self.manifest_path} is missing.{begun}"
            )
        return read_manifest(self.manifest_path)

    def _read_table(self, manifest: dict[str, Any]) -> ImageTable:
        path = self.path / manifest["images"]
        check_file(path, manifest["checksums"].get("images"))
        columns, changes = parse_object(path), []
        if "changes" in manifest:
            path = self.path / manifest["changes"]
            length = manifest.get("changes_bytes", 0)
            check_file(path, manifest["checksums"].get("changes"), length)
            lines = path.read_bytes()[:length].splitlines()
            changes = [parse_object(path, line) for line in lines]
        try:
            return ImageTable.read(columns, changes)
        except ValueError as error:
            raise damaged(path, error) from error

    def is_changed(self) -> bool:
        """Whether there is a finished index to or from which images were added or removed."""
        return "changes" in self.finished_manifest()

    def finished_manifest(self) -> dict[str, Any]:
        """Returns the finished manifest; empty if there is none that can be read."""
        try:
            return self.read_manifest()
        except (FileNotFoundError, ValueError):
            return {}
