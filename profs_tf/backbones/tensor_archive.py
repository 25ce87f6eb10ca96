"""Reads the tensors of a PyTorch file without PyTorch, and without running what a pickle might hold.

``torch.save`` writes a zip archive since PyTorch 1.6: the raw numbers of each storage in ``NAME/data/KEY``
and a pickle, ``NAME/data.pkl``, that says which storage, offset, sizes and strides make up which tensor.
Pickles can call any function there is. The reader here knows the few that make up tensors, has its own in
their place, and refuses every other name before it is looked up.
"""

from __future__ import annotations

import math
import pickle
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np

# PyTorch's storage classes and the numbers in them, without the byte order.
_STORAGES = {
    "DoubleStorage": "f8",
    "FloatStorage": "f4",
    "HalfStorage": "f2",
    "LongStorage": "i8",
    "IntStorage": "i4",
    "ShortStorage": "i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}
_ZIP_START = b"PK\x03\x04"
# The pickled number that every file of torch.save begins with before PyTorch 1.6.
_OLD_START = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."


def read_tensors(path: str) -> dict[str, np.ndarray]:
    """Returns the tensors of a state dict by name.

    Args:
        path: A file that ``torch.save(model.state_dict(), path)`` wrote with PyTorch 1.6 or later.

    Returns:
        One array for each tensor, with the tensor's shape. Costs as much memory as the file has bytes.

    Raises:
        ValueError: If there is no such file; it is damaged or of another kind; its pickle asks for anything
            but tensors, which is not run; or it holds anything but tensors by name.
    """
    try:
        with open(path, "rb") as file:
            start = file.read(len(_OLD_START))
    except OSError as error:
        raise ValueError(
            f"`pretrained` must be the path of a PyTorch file, got {str(path)!r}: {error}"
        ) from error
    if start == _OLD_START:
        raise ValueError(
            "`pretrained` must be a PyTorch file of the zip format, got "
            f"{str(path)!r} in the format before PyTorch 1.6. Where PyTorch is installed, convert it by "
            'torch.save(torch.load(PATH, map_location="cpu", weights_only=True), NEW_PATH).'
        )
    if not start.startswith(_ZIP_START):
        raise ValueError(f"`pretrained` must be a file written by torch.save, got {str(path)!r}.")
    try:
        with zipfile.ZipFile(path) as archive:
            content = _Tensors(_Archive(archive)).load()
    except _RefusedError as error:
        raise ValueError(f"`pretrained` must be a PyTorch state dict, got {str(path)!r}: {error}") from error
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, zlib.error) as error:
        raise ValueError(
            f"`pretrained` must be a complete PyTorch file, got {str(path)!r}, damaged or cut short: {error}"
        ) from error
    return _state_dict(content, path)


class _RefusedError(ValueError):
    """The file holds what no state dict holds."""


@dataclass(frozen=True)
class _Storage:
    key: str
    numbers: np.ndarray


class _Archive:
    """The members of the zip file."""

    def __init__(self, archive: zipfile.ZipFile):
        self._archive = archive
        pickles = [name for name in archive.namelist() if name.split("/")[1:] == ["data.pkl"]]
        if len(pickles) != 1:
            raise _RefusedError(f"the archive holds {len(pickles)} members NAME/data.pkl instead of one.")
        self._root = pickles[0].rsplit("/", 1)[0]
        self._big_endian = self.has("byteorder") and self.read("byteorder") == b"big"

    def has(self, member: str) -> bool:
        return f"{self._root}/{member}" in self._archive.namelist()

    def read(self, member: str) -> bytes:
        if not self.has(member):
            raise _RefusedError(f"the archive lacks {self._root}/{member}.")
        info = self._archive.getinfo(f"{self._root}/{member}")
        # PyTorch never compresses; refusing it bounds the memory by the size of the file.
        if info.compress_type != zipfile.ZIP_STORED:
            raise _RefusedError(f"{info.filename} is compressed, which torch.save never does.")
        return self._archive.read(info)

    def numbers(self, key: str, number_type: str, count: int) -> np.ndarray:
        dtype = np.dtype(number_type).newbyteorder(">" if self._big_endian else "<")
        content = self.read(f"data/{key}")
        if len(content) != count * dtype.itemsize:
            raise _RefusedError(
                f"storage {key} has {len(content)} bytes instead of {count * dtype.itemsize}."
            )
        return np.frombuffer(content, dtype)


class _Tensors(pickle.Unpickler):
    """Unpickles mappings of tensors and nothing else."""

    def __init__(self, archive: _Archive):
        super().__init__(BytesIO(archive.read("data.pkl")))
        self._archive = archive
        self._storages: dict[str, _Storage] = {}

    def load(self) -> Any:
        try:
            return super().load()
        except (_RefusedError, zipfile.BadZipFile, OSError):
            raise
        # Damaged pickles end in any of these, as the documentation of pickle warns.
        except (pickle.UnpicklingError, ArithmeticError, AttributeError, EOFError, LookupError, MemoryError,
                TypeError, ValueError, RecursionError) as error:  # fmt: skip
            raise _RefusedError(f"its data.pkl is damaged: {error}") from error

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return self._tensor
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return self._parameter
        if module == "torch" and name in _STORAGES:
            return name
        raise _RefusedError(
            f"its pickle asks for {module}.{name}, which is no part of a tensor and was not run. Save "
            "model.state_dict(), in float32, and nothing else."
        )

    def persistent_load(self, pid: Any) -> _Storage:
        kind, storage_type, key, _, count = pid
        if kind != "storage" or storage_type not in _STORAGES or not isinstance(key, str):
            raise _RefusedError(f"its pickle asks for an unknown object {pid!r}.")
        if key not in self._storages:
            numbers = self._archive.numbers(key, _STORAGES[storage_type], count)
            self._storages[key] = _Storage(key, numbers)
        return self._storages[key]

    @staticmethod
    def _tensor(
        storage, offset, sizes, strides, requires_grad=False, hooks=None, metadata=None
    ) -> np.ndarray:
        numbers = storage.numbers
        if len(sizes) != len(strides) or min((offset, *sizes, *strides)) < 0:
            raise _RefusedError(f"a tensor of storage {storage.key} has sizes {sizes} and strides {strides}.")
        last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides))
        count = math.prod(sizes)
        if count and (last >= len(numbers) or count > len(numbers)):
            raise _RefusedError(f"a tensor of sizes {sizes} reaches beyond its storage {storage.key}.")
        if not count:
            return np.empty(sizes, numbers.dtype)
        steps = [stride * numbers.itemsize for stride in strides]
        return np.lib.stride_tricks.as_strided(numbers[offset:], sizes, steps, writeable=False)

    @staticmethod
    def _parameter(data, requires_grad=False, hooks=None) -> np.ndarray:
        return data


def _state_dict(content: Any, path: str) -> dict[str, np.ndarray]:
    if not isinstance(content, Mapping):
        raise ValueError(
            f"`pretrained` must be a PyTorch state dict, got {str(path)!r}, which holds a "
            f"{type(content).__name__}. Save model.state_dict()."
        )
    for name, value in content.items():
        if not isinstance(name, str) or not isinstance(value, np.ndarray):
            raise ValueError(
                f"`pretrained` must be a PyTorch state dict of tensors by name, got {str(path)!r}, in which "
                f"{name!r} is a {type(value).__name__}. Save model.state_dict() alone."
            )
    return dict(content)
