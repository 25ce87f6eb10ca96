"""Reads .safetensors files: tensors by name, without a pickle.

The format (https://github.com/huggingface/safetensors): 8 bytes with the length of the header, little endian;
the header, a JSON object from each tensor's name to its ``dtype``, ``shape`` and ``data_offsets`` (begin,
end) in the bytes that follow; then these bytes, which the tensors fill without gaps, row by row, little
endian.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any

import numpy as np

_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U8": "u1",
    "BOOL": "?",
}
_LENGTH_BYTES = 8


def is_safetensors(start: bytes) -> bool:
    """Returns whether a file whose first 9 bytes these are may be a .safetensors file."""
    return start[_LENGTH_BYTES : _LENGTH_BYTES + 1] == b"{"


def read_safetensors(path: str) -> dict[str, np.ndarray]:
    """Returns the tensors of a file by name; those of type BF16 as float32.

    Memory and time are bounded by the size of the file, whatever it claims.

    Raises:
        ValueError: If the file does not follow the format in every byte.
        OSError: If it cannot be read.
    """
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        if length > size - _LENGTH_BYTES:
            raise ValueError(f"the header claims {length} bytes, the file has {size}")
        header = _header(file.read(length))
        data = file.read()
    tensors, end = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: _offsets(*item)):
        begin, next_end = _offsets(name, entry)
        if begin != end or not begin <= next_end <= len(data):
            raise ValueError(
                f"the bytes {begin} to {next_end} of {name} do not follow those before, or the end"
            )
        tensors[name] = _tensor(name, entry, data[begin:next_end])
        end = next_end
    if end != len(data):
        raise ValueError(f"{len(data) - end} bytes at the end belong to no tensor")
    return tensors


def _header(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=_unique)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"the header is no JSON: {error}") from error
    if not isinstance(header, dict):
        raise ValueError("the header is no JSON object")
    header.pop("__metadata__", None)
    return header


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("the header names a tensor twice")
    return content


def _offsets(name: str, entry: Any) -> tuple[int, int]:
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    if not isinstance(offsets, list) or len(offsets) != 2 or not _are_counts(offsets):
        raise ValueError(f"{name} has the data_offsets {offsets}, which must be two whole numbers")
    return offsets[0], offsets[1]


def _tensor(name: str, entry: dict[str, Any], data: bytes) -> np.ndarray:
    dtype, shape = str(entry.get("dtype")), entry.get("shape")
    if dtype not in _DTYPES or not isinstance(shape, list) or not _are_counts(shape):
        raise ValueError(f"{name} has the dtype {dtype} and the shape {shape}")
    kind = np.dtype(_DTYPES[dtype])
    if math.prod(shape) * kind.itemsize != len(data):
        raise ValueError(f"{name} of {dtype} {shape} has {len(data)} bytes")
    array = np.frombuffer(data, kind).reshape(shape)
    # bfloat16 is the upper half of a float32.
    return (array.astype("<u4") << 16).view("<f4") if dtype == "BF16" else array


def _are_counts(values: list[Any]) -> bool:
    return all(type(value) is int and value >= 0 for value in values)
