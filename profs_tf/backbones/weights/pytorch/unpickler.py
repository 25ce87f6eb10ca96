"""Reads the pickle in a PyTorch file, which says how storages make up tensors, without running its code.

A pickle can call any function. The reader here has its own version of the few functions that rebuild tensors,
and refuses every other name before it is looked up.
"""

from __future__ import annotations

import math
import os
import pickle
import pickletools
import zipfile
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Callable

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

# Opcodes that write an entry of the memo.
_MEMO_WRITES = ("PUT", "BINPUT", "LONG_BINPUT")


class InvalidStateDictError(ValueError):
    """The file holds anything that a state dict does not hold."""


@dataclass(frozen=True)
class Storage:
    """Numbers that tensors are views of, and their key in the file."""

    key: str
    numbers: np.ndarray


class _BoundedReader:
    """Reads no more bytes than a file has: Python's own reader would allocate them before it reads."""

    def __init__(self, file: BinaryIO) -> None:
        position = file.tell()
        self._end = file.seek(0, os.SEEK_END)
        file.seek(position)
        self._file = file
        self.readline, self.tell = file.readline, file.tell

    def read(self, size: int) -> bytes:
        """Returns at most ``size`` bytes."""
        return self._file.read(min(size, self.bytes_left()))

    def bytes_left(self) -> int:
        """Returns how many bytes are left to read."""
        return self._end - self._file.tell()


class TensorUnpickler(pickle.Unpickler):
    """Unpickles mappings of tensors, as arrays that are views of their storages, and nothing else.

    Args:
        file: Positioned at the pickle; `load` leaves it behind the pickle.
        name: Of the pickle, for messages.
        numbers: Returns the array of a storage, given its key, dtype and count.
    """

    def __init__(self, file: BinaryIO, name: str, numbers: Callable[[str, np.dtype, int], np.ndarray]):
        super().__init__(file)
        self._file = file
        self._name = name
        self._numbers = numbers
        self._storages: dict[str, Storage] = {}

    def load(self) -> Any:
        """Returns the pickled object.

        Raises:
            InvalidStateDictError: If the pickle is damaged, or asks for anything but tensors.
        """
        try:
            self._check_memory()
            return super().load()
        except (InvalidStateDictError, zipfile.BadZipFile, OSError):
            raise
        # Damaged pickles end in any of these, as the documentation of pickle warns.
        except (pickle.UnpicklingError, ArithmeticError, AttributeError, EOFError, LookupError, MemoryError,
                TypeError, ValueError, RecursionError) as error:  # fmt: skip
            raise InvalidStateDictError(f"its {self._name} is damaged or cut short: {error}") from error

    def _check_memory(self) -> None:
        """Reads the pickle without executing it, and returns to its start.

        Raises:
            InvalidStateDictError: If it would allocate much more than it has bytes.
            ValueError, LookupError, ...: If it is damaged.
        """
        start = self._file.tell()
        bounded: Any = _BoundedReader(self._file)
        for opcode, argument, position in pickletools.genops(bounded):
            # Python allocates all entries of the memo up to the one that is written, and whole frames.
            if opcode.name in _MEMO_WRITES and int(argument or 0) > (position or 0) - start:
                raise InvalidStateDictError(
                    f"its {self._name} writes entry {argument} of its memo too early."
                )
            if opcode.name == "FRAME" and int(argument or 0) > bounded.bytes_left():
                raise EOFError(f"a frame of {argument} bytes is larger than the file")
            if opcode.name == "BYTEARRAY8":
                raise InvalidStateDictError(f"its {self._name} holds a byte array, which no tensor needs.")
        self._file.seek(start)

    def find_class(self, module: str, name: str) -> Any:
        """Returns the replacement of a PyTorch function or class; refuses every other name."""
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        # The second is from PyTorch before 0.4, whose tensors had no gradients.
        if module == "torch._utils" and name in ("_rebuild_tensor_v2", "_rebuild_tensor"):
            return self._tensor
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return self._parameter
        if module == "torch" and name in _STORAGES:
            return name
        raise InvalidStateDictError(
            f"its pickle asks for {module}.{name}, which does not belong to a tensor and was not run. Save "
            "model.state_dict(), in float32, and nothing else."
        )

    def persistent_load(self, pid: Any) -> Storage:
        """Returns the storage with a persistent id: ("storage", type, key, device, count)."""
        kind, storage_type, key, _, count = pid
        if kind != "storage" or storage_type not in _STORAGES or not isinstance(key, str):
            raise InvalidStateDictError(f"its pickle asks for an unknown object {pid!r}.")
        if key not in self._storages:
            dtype = np.dtype(_STORAGES[storage_type])
            self._storages[key] = Storage(key, self._numbers(key, dtype, count))
        return self._storages[key]

    @staticmethod
    def _tensor(
        storage: Storage,
        offset: int,
        sizes: Sequence[int],
        strides: Sequence[int],
        requires_grad: bool = False,
        hooks: object = None,
        metadata: object = None,
    ) -> np.ndarray:
        numbers = storage.numbers
        if len(sizes) != len(strides) or min((offset, *sizes, *strides)) < 0:
            raise InvalidStateDictError(
                f"a tensor of storage {storage.key} has sizes {sizes} and strides {strides}."
            )
        last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides))
        count = math.prod(sizes)
        if count and (last >= len(numbers) or count > len(numbers)):
            raise InvalidStateDictError(
                f"a tensor of sizes {sizes} reaches beyond its storage {storage.key}."
            )
        if not count:
            return np.empty(sizes, numbers.dtype)
        steps = [stride * numbers.itemsize for stride in strides]
        return np.lib.stride_tricks.as_strided(numbers[offset:], sizes, steps, writeable=False)

    @staticmethod
    def _parameter(data: np.ndarray, requires_grad: bool = False, hooks: object = None) -> np.ndarray:
        return data
