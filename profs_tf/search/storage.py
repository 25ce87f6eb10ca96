"""The folder of an index: what lies where, and how it is written so that a kill leaves nothing half done.

While an index is made, `chunks/` holds one file for each chunk of pictures that is embedded, named by the
hash of everything that its embeddings depend on. A finished index is `index.json`, written last, and the
files that it names. So a changed picture, another model or another batch size is never mistaken for what was
there.

Shapes: N images, n of a chunk, D embedding dimension.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Optional, Union

import numpy as np

from profs_tf.utils.files import write_atomically

FORMAT = 1
_MANIFEST_KEYS = {
    "embedder",
    "embedder_sha256",
    "root",
    "embedding_dim",
    "normalized",
    "embeddings",
    "images",
}
_TABLE_KEYS = {"names", "sizes", "mtimes_ns", "chunks", "unreadable", "classes"}


class Chunk(NamedTuple):
    """Embedded pictures.

    Attributes:
        embeddings: float32 `[n, D]`, of the pictures that could be read.
        unreadable: [position in the chunk, reason] of the others.
    """

    embeddings: np.ndarray
    unreadable: list[list[Any]]


class IndexFolder:
    """Reads and writes the files of an index.

    Attributes:
        path: the folder.
    """

    def __init__(self, path: Union[str, os.PathLike]) -> None:
        """Names the folder; touches nothing."""
        if not path:
            raise ValueError("`index` must name a folder for the index. Pass --index=FOLDER.")
        self.path = Path(path).expanduser()
        self._manifest, self._chunks = self.path / "index.json", self.path / "chunks"
        self._begun = self._chunks / "begun.json"

    def begin(self, identity: dict[str, Any], overwrite: bool) -> None:
        """Makes the folder, or goes on with what is in it.

        Args:
            identity: what must be the same to go on: `embedder_sha256` and `root`.
            overwrite: whether an index of another identity is replaced.

        Raises:
            FileExistsError: the folder holds something else than an index.
            NotADirectoryError: it is a file.
            ValueError: it holds an index of another embedder or of other pictures.
        """
        if self.path.exists() and not self.path.is_dir():
            raise NotADirectoryError(f"`index` must be a folder, got the file {self.path}.")
        if above := next((parent for parent in self.path.parents if parent.is_file()), None):
            raise NotADirectoryError(f"`index` must be in a folder, got {self.path}, below the file {above}.")
        known = [file for file in (self._manifest, self._begun) if file.exists()]
        # Where nothing was embedded yet, nothing is lost: the embedder may have been the wrong one.
        kept = [file for file in known if file == self._manifest or any(self._chunks.glob("*.npz"))]
        if not known and self.path.is_dir() and any(item != self._chunks for item in self.path.iterdir()):
            raise FileExistsError(
                f"`index` must be empty or an index, got {self.path}. Choose another folder."
            )
        for file in [] if overwrite else kept:
            _check_identity(self.path, _read_json(file, set(identity)), identity)
        self._chunks.mkdir(parents=True, exist_ok=True)
        write_atomically(self._begun, json.dumps(identity) + "\n")

    def read_manifest(self) -> dict[str, Any]:
        """Returns index.json.

        Raises:
            FileNotFoundError: there is no finished index.
            ValueError: it was written by another version, or is damaged.
        """
        if not self._manifest.exists():
            begun = (
                " It was begun, but not finished: build it again to go on." if self._begun.exists() else ""
            )
            raise FileNotFoundError(
                f"`index` must be the folder of an index, but {self._manifest} is missing.{begun}"
            )
        manifest = _read_json(self._manifest, set())
        if manifest.get("format") != FORMAT:
            raise ValueError(
                f"`index` must have format {FORMAT}, got {manifest.get('format')} in {self._manifest}. "
                "Build it anew by --overwrite."
            )
        return _read_json(self._manifest, _MANIFEST_KEYS)

    def read_images(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Returns the table of the images of a finished index.

        Raises:
            ValueError: it is damaged.
        """
        return _read_json(self.path / manifest["images"], _TABLE_KEYS)

    def open_array(self, manifest: dict[str, Any], name: str) -> np.ndarray:
        """Maps the embeddings or the pictures of a finished index into memory, read-only.

        Raises:
            ValueError: the file is damaged.
        """
        path = self.path / manifest[name]
        try:
            return np.load(path, mmap_mode="r")
        except (OSError, ValueError, EOFError) as error:
            raise _damaged(path, error) from error

    def has_chunk(self, key: str) -> bool:
        """Whether a chunk's file is there."""
        return self._chunk_path(key).exists()

    def read_chunk(self, key: str) -> Chunk:
        """Returns a chunk from its file."""
        with np.load(self._chunk_path(key), allow_pickle=False) as archive:
            return Chunk(archive["embeddings"], json.loads(str(archive["unreadable"])))

    def write_chunk(self, key: str, chunk: Chunk) -> None:
        """Writes a chunk's file, whole or not at all."""
        unreadable = np.array(json.dumps(chunk.unreadable))
        with _replacing(self._chunk_path(key)) as file:
            np.savez(file, embeddings=chunk.embeddings, unreadable=unreadable)

    def publish(
        self,
        identity: dict[str, Any],
        keys: list[str],
        chunks: Iterable[Chunk],
        table: dict[str, Any],
        pictures: Optional[np.ndarray],
    ) -> None:
        """Writes the finished index and removes what it replaces.

        Args:
            identity: what the manifest says besides: embedder and root.
            keys: the chunks' keys.
            chunks: their `Chunk`, one after another; more than one is never held.
            table: columns of the images, and `chunks`.
            pictures: uint8 `[N, H, W, 3]` to be kept with the index, or None.
        """
        name = hashlib.sha256("".join(keys).encode()).hexdigest()[:16]
        files = {"embeddings": f"embeddings-{name}.npy", "images": f"images-{name}.json"}
        shape, normalized = self._write_embeddings(self.path / files["embeddings"], chunks, table)
        write_atomically(self.path / files["images"], json.dumps(table) + "\n")
        if pictures is not None:
            files["pictures"] = f"pictures-{name}.npy"
            with _replacing(self.path / files["pictures"]) as file:
                np.save(file, pictures)
        manifest = {
            "format": FORMAT,
            **identity,
            "num_images": shape[0],
            "embedding_dim": shape[1],
            "normalized": normalized,
            **files,
        }
        write_atomically(self._manifest, json.dumps(manifest, indent=2) + "\n")
        shutil.rmtree(self._chunks)
        for kind in ("embeddings", "images", "pictures"):
            for path in self.path.glob(f"{kind}-*"):
                if path.name not in files.values():
                    path.unlink()

    def _write_embeddings(
        self, path: Path, chunks: Iterable[Chunk], table: dict[str, Any]
    ) -> tuple[tuple[int, int], bool]:
        """Writes all chunks into one file; returns its shape and whether all embeddings have length 1."""
        shape, normalized = (len(table["names"]), 0), True
        with _replacing(path) as file:
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

    def _chunk_path(self, key: str) -> Path:
        return self._chunks / f"{key}.npz"


def _read_json(path: Path, keys: set[str]) -> dict[str, Any]:
    """Returns an object of JSON that has at least some keys.

    Raises:
        ValueError: the file is damaged.
    """
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise _damaged(path, error) from error
    if not isinstance(found, dict) or not keys <= set(found):
        raise _damaged(path, "its keys are not those of an index")
    return found


def _damaged(path: Path, reason: object) -> ValueError:
    return ValueError(f"`index` must be whole, but {path} is not: {reason}. Build it anew by --overwrite.")


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """Opens a binary file that takes its place when it is complete."""
    part = path.with_name(path.name + ".part")
    with open(part, "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def _check_identity(path: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    if found.get("embedder_sha256") != wanted["embedder_sha256"]:
        raise ValueError(
            f"`embedder` must be the one of the index {path}, SHA-256 {found.get('embedder_sha256')}, "
            f"got {wanted['embedder_sha256']}. Pass --overwrite to embed everything by the new one."
        )
    if found.get("root") != wanted["root"]:
        pictures = found.get("root") or "a data set"
        raise ValueError(
            f"`index` must be empty or of the same pictures, got {path} of {pictures}. Choose "
            "another folder, or pass --overwrite to replace the index."
        )
