"""Files with checksums, which grow at their end: what lies beyond the manifest's length is ignored.

So a process that is killed while it appends leaves the old file, and a reader of the old manifest is not
disturbed by an appending process.

Shapes: N rows of an array.
"""

from __future__ import annotations

import json
import os
import tokenize
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, Optional

import numpy as np

_BLOCK_BYTES = 1 << 20


_CURE = "Rebuild it with `overwrite=True`."


def damaged(path: Path, reason: object, cure: str = _CURE) -> ValueError:
    """Returns the error of a damaged file of an index."""
    return ValueError(f"`index` must be whole, but {path} is not: {reason}. {cure}")


def parse_object(path: Path, text: Optional[bytes] = None) -> dict[str, Any]:
    """Returns the JSON object of a file, or of a part of one; raises ValueError if it is damaged."""
    try:
        found = json.loads(path.read_bytes() if text is None else text)
    except (OSError, ValueError) as error:
        raise damaged(path, error) from error
    if not isinstance(found, dict):
        raise damaged(path, "its keys are not those of an index")
    return found


def file_checksum(path: Path, stop: Optional[int] = None) -> int:
    """Returns the CRC-32 of a file, or of its first `stop` bytes.

    Raises:
        OSError: If it cannot be read.
        EOFError: If it is shorter.
    """
    left, checksum = float("inf") if stop is None else stop, 0
    with open(path, "rb") as file:
        while block := file.read(int(min(left, _BLOCK_BYTES))):
            checksum = zlib.crc32(block, checksum)
            left -= len(block)
    if stop is not None and left > 0:
        raise EOFError(f"it is {left} bytes too short")
    return checksum


def check_file(path: Path, checksum: Any, stop: Optional[int] = None, cure: str = _CURE) -> None:
    """Raises ValueError unless a file, up to byte `stop`, has the checksum."""
    try:
        found = file_checksum(path, stop)
    except (OSError, EOFError) as error:
        raise damaged(path, error, cure) from error
    if found != checksum:
        raise damaged(path, "its checksum differs", cure)


def open_rows(path: Path, rows: int, checksum: Any) -> np.ndarray:
    """Maps the first N rows of a .npy file into memory, read-only, after a check of their checksum.

    Reads them once. The header states how many rows the file had when it was created.

    Raises:
        ValueError: If the file is damaged.
    """
    try:
        shape, dtype, offset = _header(path)
        stop = offset + rows * _row_bytes(shape, dtype)
    # TokenError: of a damaged header.
    except (OSError, ValueError, EOFError, IndexError, TypeError, tokenize.TokenError) as error:
        check_file(path, checksum)
        raise damaged(path, error) from error
    check_file(path, checksum, stop)
    try:
        return np.memmap(path, dtype, "r", offset, (rows, *shape[1:]))
    except (OSError, ValueError) as error:
        raise damaged(path, error) from error


def rows_checksum(path: Path, rows: int) -> int:
    """Returns the CRC-32 of the first N rows of a .npy file, with its header."""
    shape, dtype, offset = _header(path)
    return file_checksum(path, offset + rows * _row_bytes(shape, dtype))


def append_rows(path: Path, rows: int, blocks: Iterable[np.ndarray], checksum: int) -> int:
    """Writes blocks after the first N rows of a .npy file, in place of whatever follows.

    Returns:
        The checksum of the rows that the file has then, computed from that of the first N.
    """
    shape, dtype, offset = _header(path)
    with open(path, "r+b") as file:
        _cut(file, offset + rows * _row_bytes(shape, dtype))
        for block in blocks:
            content = np.ascontiguousarray(block, dtype).tobytes()
            checksum = zlib.crc32(content, checksum)
            file.write(content)
        _flush(file)
    return checksum


def append_line(path: Path, line: bytes, length: int, checksum: int) -> int:
    """Writes a line after the first `length` bytes of a file; returns the new checksum."""
    with open(path, "r+b" if length else "wb") as file:
        _cut(file, length)
        file.write(line)
        _flush(file)
    return zlib.crc32(line, checksum)


def _header(path: Path) -> tuple[tuple[int, ...], np.dtype, int]:
    """Returns shape, dtype and where the rows begin."""
    with open(path, "rb") as file:
        version = np.lib.format.read_magic(file)
        if version != (1, 0):
            raise ValueError(f"its version is {version}")
        shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(file)
        if fortran_order or dtype.hasobject:
            raise ValueError(f"its array is {dtype}")
        return shape, dtype, file.tell()


def _row_bytes(shape: tuple[int, ...], dtype: np.dtype) -> int:
    if len(shape) < 2 or 0 in shape:
        raise ValueError(f"its shape is {shape}")
    return dtype.itemsize * int(np.prod(shape[1:], dtype=object))


def _cut(file: BinaryIO, length: int) -> None:
    file.seek(length)
    file.truncate()


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
