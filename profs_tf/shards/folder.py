"""The folder of shards: its manifest, which shards are done, and when a folder is refused.

`_manifest.json` ties the shards to their embedder and pictures; readers of Parquet folders skip names that
start with "_" or ".". While shards are missing, `_parts/` holds a record of each that is done, written after
its files, with the float32 embeddings of the images that Recall is measured on.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np

from profs_tf.shards.formats import FORMATS, Rows
from profs_tf.utils.files import expanded, locked, replacing, write_atomically

FORMAT_VERSION = 1
# What must not change while the shards of a folder are written -> how the error names it.
_IDENTITY = {
    "embedder_sha256": "the embedder",
    "inputs_sha256": "the list of pictures",
    "dtype": "`dtype`",
    "format": "`format`",
    "batch_size": "`batch_size`",
    "shard_size": "`shard_size`",
    "recall_sample": "`recall_sample`",
    "format_version": "the version of the layout",
}
_RECORD_KEYS = {"key", "files", "num_images", "embedding_dim", "unreadable", "clipped"}
_BLOCK_BYTES = 1 << 20

Record = dict[str, Any]
"""Of a finished shard: `key`, `files` {name: SHA-256}, `num_images`, `embedding_dim`, `unreadable`, and the
number of `clipped` values."""


class ShardFolder:
    """Reads and writes the files of a folder of shards.

    Attributes:
        path: The folder.
    """

    def __init__(self, path: Union[str, os.PathLike]) -> None:
        """Names the folder; touches nothing."""
        self.path = expanded(path)
        self._manifest, self._parts = self.path / "_manifest.json", self.path / "_parts"

    @contextlib.contextmanager
    def writing(self, identity: dict[str, Any], overwrite: bool) -> Iterator[None]:
        """Creates the folder or continues with its content; no other process can write it meanwhile.

        Args:
            identity: What the shards depend on, see `_IDENTITY`; goes into the manifest.
            overwrite: Whether shards of another identity are replaced.

        Raises:
            FileExistsError: If the folder holds something other than shards.
            ValueError: If it holds shards of another identity, or another process is writing them.
        """
        self._check_is_own()
        self.path.mkdir(parents=True, exist_ok=True)
        with locked(self.path / ".lock", "output"):
            found = self.read_manifest() if self._manifest.exists() else None
            self._check_is_own()
            changed = [name for name in _IDENTITY if found is not None and found.get(name) != identity[name]]
            if changed and not overwrite:
                raise ValueError(
                    f"`output` must be empty or hold shards of the same run, got {self.path}, which differs "
                    f"in {' and '.join(_IDENTITY[name] for name in changed)}. Choose another folder, or pass "
                    "`overwrite=True` to replace the shards."
                )
            if changed:
                self._remove_shards()
            if found is None or changed:
                write_atomically(self._manifest, json.dumps({**identity, "finished": False}, indent=2) + "\n")
            elif self.is_finished():
                # A kill may have kept them.
                shutil.rmtree(self._parts, ignore_errors=True)
            for part in (*self.path.glob("*.part"), *self._parts.glob("*.part")):
                part.unlink()
            yield

    def _check_is_own(self) -> None:
        own = {".lock", f"{self._manifest.name}.part"}
        if self._manifest.exists() or not self.path.exists():
            return
        if {path.name for path in self.path.iterdir()} - own:
            raise FileExistsError(
                f"`output` must be empty or hold shards, got {self.path}. Choose another folder."
            )

    def read_manifest(self) -> dict[str, Any]:
        """Returns the manifest.

        Raises:
            ValueError: If it is not whole.
        """
        try:
            manifest = json.loads(self._manifest.read_bytes())
            if not isinstance(manifest, dict) or "finished" not in manifest:
                raise ValueError("its keys are not those of a manifest")
        except ValueError as error:
            raise ValueError(
                f"`output` must have a whole manifest, got {self._manifest}: {error}. Choose another folder."
            ) from error
        return manifest

    def begin(self) -> None:
        """Notes that shards are missing, before the first of them is written."""
        self._parts.mkdir(exist_ok=True)
        self.note(finished=False)

    def temporary_file(self, name: str) -> Path:
        """Returns the path of a file that lasts at most until the shards are done."""
        return self._parts / f"{name}.part"

    def is_finished(self) -> bool:
        """Whether all shards were done when the manifest was last written."""
        return bool(self.read_manifest()["finished"])

    def note(self, **entries: Any) -> None:
        """Adds entries to the manifest."""
        write_atomically(self._manifest, json.dumps({**self.read_manifest(), **entries}, indent=2) + "\n")

    def records(self) -> dict[int, Record]:
        """Returns {shard: record} of the finished shards whose files are whole."""
        found = dict(enumerate(self.read_manifest().get("shards", ())))
        for path in self._parts.glob("[0-9]*.json"):
            try:
                found[int(path.stem)] = json.loads(path.read_bytes())
            except ValueError:
                # Damaged: its shard is embedded again.
                found.pop(int(path.stem), None)
        return {number: record for number, record in found.items() if self._is_whole(record)}

    def write(
        self,
        number: int,
        file_format: str,
        rows: Rows,
        about: dict[str, Any],
        record: Record,
        sample: np.ndarray,
    ) -> None:
        """Writes a shard, the float32 embeddings of its sample, and at last its record.

        Args:
            number: Of the shard.
            file_format: One of `FORMATS`.
            rows: Content.
            about: Goes into the files, where the format has a place for it.
            record: Goes into the manifest.
            sample: float32, the embeddings of those images that Recall is measured on.
        """
        names = FORMATS[file_format](self.path, f"part-{number:05}", rows, about)
        with replacing(self._parts / f"{number:05}.npy") as file:
            np.save(file, sample)
        files = {name: _file_sha256(self.path / name) for name in names}
        write_atomically(self._parts / f"{number:05}.json", json.dumps({**record, "files": files}))

    def sample(self, num_shards: int) -> Optional[np.ndarray]:
        """Returns the float32 embeddings of all shards' samples; None if those of a shard are gone."""
        paths = [self._parts / f"{number:05}.npy" for number in range(num_shards)]
        if not all(path.exists() for path in paths):
            return None
        return np.concatenate([np.load(path) for path in paths])

    def finish(self, **entries: Any) -> None:
        """Completes the manifest and removes what only an unfinished folder needs."""
        self.note(finished=True, **entries)
        shutil.rmtree(self._parts)

    def _remove_shards(self) -> None:
        shutil.rmtree(self._parts, ignore_errors=True)
        for path in self.path.glob("part-*"):
            path.unlink()

    def _is_whole(self, record: Record) -> bool:
        if not isinstance(record, dict) or not record.keys() >= _RECORD_KEYS:
            return False
        try:
            return all(_file_sha256(self.path / name) == wanted for name, wanted in record["files"].items())
        except OSError:
            return False


def _file_sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()
