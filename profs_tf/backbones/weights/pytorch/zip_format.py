"""PyTorch's files since 1.6: a zip archive.

It holds the raw numbers of each storage in ``NAME/data/KEY`` and a pickle, ``NAME/data.pkl``, that says which
storage, offset, sizes and strides make up which tensor.
"""

from __future__ import annotations

import os
import zipfile
from io import BytesIO
from typing import Any

import numpy as np

from profs_tf.backbones.weights.pytorch.unpickler import InvalidStateDictError, TensorUnpickler

MAGIC = b"PK\x03\x04"


def read_zip(path: str) -> Any:
    """Returns the object that is pickled in a zip file, its tensors as arrays.

    Raises:
        InvalidStateDictError: If it holds anything that a state dict does not hold.
        zipfile.BadZipFile, OSError, EOFError, NotImplementedError, zlib.error: If it is damaged.
    """
    with zipfile.ZipFile(path) as archive:
        if sum(max(info.file_size, info.compress_size) for info in archive.infolist()) > os.path.getsize(
            path
        ):
            raise InvalidStateDictError("its members take more bytes than the file has.")
        members = _Members(archive)
        return TensorUnpickler(BytesIO(members.read("data.pkl")), "data.pkl", members.numbers).load()


class _Members:
    """The members of the zip file."""

    def __init__(self, archive: zipfile.ZipFile):
        self._archive = archive
        pickles = [name for name in archive.namelist() if name.split("/")[1:] == ["data.pkl"]]
        if len(pickles) != 1:
            raise InvalidStateDictError(
                f"the archive holds {len(pickles)} members NAME/data.pkl instead of one."
            )
        self._root = pickles[0].rsplit("/", 1)[0]
        self._big_endian = self.has("byteorder") and self.read("byteorder") == b"big"

    def has(self, member: str) -> bool:
        return f"{self._root}/{member}" in self._archive.namelist()

    def read(self, member: str) -> bytes:
        if not self.has(member):
            raise InvalidStateDictError(f"the archive lacks {self._root}/{member}.")
        info = self._archive.getinfo(f"{self._root}/{member}")
        # PyTorch never compresses; refusing it bounds the memory by the size of the file.
        if info.compress_type != zipfile.ZIP_STORED:
            raise InvalidStateDictError(f"{info.filename} is compressed, which torch.save never does.")
        return self._archive.read(info)

    def numbers(self, key: str, dtype: np.dtype, count: int) -> np.ndarray:
        content = self.read(f"data/{key}")
        if len(content) != count * dtype.itemsize:
            raise InvalidStateDictError(
                f"storage {key} has {len(content)} bytes instead of {count * dtype.itemsize}."
            )
        return np.frombuffer(content, dtype.newbyteorder(">" if self._big_endian else "<"))
