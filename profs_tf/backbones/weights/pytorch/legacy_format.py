"""PyTorch's files before 1.6, the format of most published state dicts: pickles, then raw numbers.

    magic number | protocol version | system | the state dict | keys of storages | the storages in that order

Each of the first five is a pickle. A storage is the count of its numbers, int64, and the numbers, all
little-endian. The state dict refers to the storages that follow it by key, type and count.
"""

from __future__ import annotations

import os
from io import BufferedReader
from typing import Any

import numpy as np

from profs_tf.backbones.weights.pytorch.unpickler import InvalidStateDictError, Storage, TensorUnpickler

# The pickled magic number.
MAGIC = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
_PROTOCOL_VERSION = 1001


def read_legacy(path: str) -> Any:
    """Returns the object that is pickled as the state dict, its tensors as arrays.

    Args:
        path: A file that begins with `MAGIC`.

    Raises:
        InvalidStateDictError: If it holds anything that a state dict does not hold, or was written on a
            big-endian machine.
        EOFError: If it is cut short.
    """
    with open(path, "rb") as file:
        file.seek(len(MAGIC))
        storages = _Storages(os.path.getsize(path))
        _check_header(_load(file, storages), _load(file, storages))
        content = _load(file, storages)
        storages.read(_load(file, storages), file)
    return content


def _load(file: BufferedReader, storages: _Storages) -> Any:
    return _ViewUnpickler(file, "pickle", storages.allocate).load()


def _check_header(protocol_version: Any, system: Any) -> None:
    if protocol_version != _PROTOCOL_VERSION:
        raise InvalidStateDictError(f"its protocol is {protocol_version!r} instead of {_PROTOCOL_VERSION}.")
    if not isinstance(system, dict) or system.get("little_endian") is not True:
        raise InvalidStateDictError(f"it was written on another system than a little-endian one: {system!r}.")


class _ViewUnpickler(TensorUnpickler):
    """Supports storages that are views of others, as in PyTorch until 0.4: (key, offset, count) or None."""

    def persistent_load(self, pid: Any) -> Storage:
        """Returns the storage with a persistent id, whose sixth element here is the view."""
        *whole, view = pid
        storage = super().persistent_load(whole)
        if view is None:
            return storage
        _, offset, count = view
        if not 0 <= offset <= offset + count <= len(storage.numbers):
            raise InvalidStateDictError(f"a view {view!r} reaches beyond its storage {storage.key}.")
        return Storage(storage.key, storage.numbers[offset : offset + count])


class _Storages:
    """The storages that the state dict refers to; their numbers follow it in the file.

    Args:
        size: Of the file in bytes: an upper bound of the memory of the storages.
    """

    def __init__(self, size: int):
        self._bytes_left = size
        self._arrays: dict[str, np.ndarray] = {}

    def allocate(self, key: str, dtype: np.dtype, count: int) -> np.ndarray:
        """Returns the array that `read` will fill."""
        self._bytes_left -= count * dtype.itemsize
        if count < 0 or self._bytes_left < 0:
            raise InvalidStateDictError(
                f"storage {key} of {count} numbers is larger than the file, or cut short."
            )
        self._arrays[key] = np.zeros(count, dtype.newbyteorder("<"))
        return self._arrays[key]

    def read(self, keys: Any, file: BufferedReader) -> None:
        """Fills the arrays from the file, which must end after the last one."""
        if not isinstance(keys, list) or sorted(map(str, keys)) != sorted(self._arrays):
            raise InvalidStateDictError("its list of storages does not match its tensors.")
        for key in keys:
            array = self._arrays[key]
            count = np.zeros(1, "<i8")
            _fill(count, file, key)
            if count[0] != len(array):
                raise InvalidStateDictError(f"storage {key} has {count[0]} numbers instead of {len(array)}.")
            _fill(array, file, key)
        if file.read(1):
            raise InvalidStateDictError("it has extra bytes after its last storage.")


def _fill(array: np.ndarray, file: BufferedReader, key: str) -> None:
    size = file.readinto(array.view("u1").data)
    if size != array.nbytes:
        raise EOFError(f"storage {key} ends after {size} of {array.nbytes} bytes.")
