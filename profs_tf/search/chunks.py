"""The chunks of an index that is being built: whole files by key, kept by a kill, one builder at a time.

Shapes: n images of a chunk, D embedding dimension.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, Optional

import numpy as np

from profs_tf.utils.files import replacing, write_atomically


class Chunk(NamedTuple):
    """Embedded pictures.

    Attributes:
        embeddings: float32 `[n, D]`, of the readable pictures.
        unreadable: [position in the chunk, reason] of the others.
    """

    embeddings: np.ndarray
    unreadable: list[list[Any]]

    @property
    def is_normalized(self) -> bool:
        """Whether all embeddings have length 1."""
        lengths = np.linalg.norm(self.embeddings.astype(np.float64), axis=1)
        return bool((np.abs(lengths - 1.0) < 1e-3).all())


class ChunkFolder:
    """One file for each embedded chunk, named by the hash of everything its embeddings depend on.

    So a changed picture, another embedder or another batch size never reuses a chunk.

    Attributes:
        path: The folder.
    """

    def __init__(self, path: Path) -> None:
        """Names the folder; touches nothing."""
        self.path = path
        self._begun = path / "begun.json"

    def begin(self, identity: dict[str, Any]) -> None:
        """Creates the folder and writes which index its chunks belong to."""
        self.path.mkdir(exist_ok=True)
        write_atomically(self._begun, json.dumps(identity) + "\n")

    def is_begun(self) -> bool:
        """Whether a builder began here and has not finished."""
        return self._begun.exists()

    def identity(self) -> Optional[dict[str, Any]]:
        """Returns what `begin` wrote; None before the first chunk, and where it cannot be read.

        Before the first chunk nothing is lost: the embedder may have been the wrong one.
        """
        if not any(self.path.glob("*.npz")):
            return None
        try:
            found = json.loads(self._begun.read_bytes())
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def has(self, key: str) -> bool:
        """Whether a chunk's file is there and whole."""
        try:
            self.read(key)
        # A damaged archive lets through whatever its parsers raise: BadZipFile, RuntimeError, zlib.error.
        except Exception:
            return False
        return True

    def read(self, key: str) -> Chunk:
        """Returns a chunk from its file, an archive with checksums."""
        # NumPy does not close a damaged archive that it opened itself.
        with open(self._file(key), "rb") as file, np.load(file, allow_pickle=False) as archive:
            return Chunk(archive["embeddings"], json.loads(str(archive["unreadable"])))

    def write(self, key: str, chunk: Chunk) -> None:
        """Writes a chunk's file atomically."""
        unreadable = np.array(json.dumps(chunk.unreadable))
        with replacing(self._file(key)) as file:
            np.savez(file, embeddings=chunk.embeddings, unreadable=unreadable)

    def remove(self) -> None:
        """Removes the folder."""
        shutil.rmtree(self.path)

    def _file(self, key: str) -> Path:
        return self.path / f"{key}.npz"


def write_chunks(path: Path, chunks: Iterable[Chunk], num_images: int) -> tuple[tuple[int, int], bool]:
    """Writes all chunks into one .npy file; returns its shape and whether all embeddings have length 1."""
    shape, normalized = (num_images, 0), True
    with replacing(path) as file:
        for number, chunk in enumerate(chunks):
            if number == 0:
                shape = (num_images, chunk.embeddings.shape[1])
                np.lib.format.write_array_header_1_0(
                    file, {"descr": "<f4", "fortran_order": False, "shape": shape}
                )
            file.write(np.ascontiguousarray(chunk.embeddings, "<f4").tobytes())
            normalized &= chunk.is_normalized
    return shape, normalized
