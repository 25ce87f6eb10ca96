"""Writing files: outputs that are checked before the work, and replaced in one step after it."""

import contextlib
import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Union

from filelock import FileLock, Timeout


def expanded(path: Union[str, os.PathLike]) -> Path:
    """Returns a path with the home folder for a leading ~; unchanged if it names an unknown user."""
    # Path's own method raises RuntimeError for an unknown user.
    return Path(os.path.expanduser(path))


def write_atomically(path: Path, text: str) -> None:
    """Replaces a text file in one step: no reader and no killed process ever sees half of it."""
    with replacing(path) as file:
        file.write(text.encode("utf-8"))


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Opens a binary file that replaces `path` when it is complete, and is removed if it does not get so."""
    part = path.with_name(path.name + ".part")
    try:
        with open(part, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException as error:
        # A full disk needs the room.
        part.unlink(missing_ok=True)
        if not isinstance(error, OSError) or error.errno is None or error.filename is not None:
            raise
        # The system does not say which file it was.
        raise OSError(error.errno, error.strerror, str(path)) from error


def is_refused(error: OSError) -> bool:
    """Whether an error says that a file must not be written: by its permissions, or on a read-only disk."""
    return error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)


@contextlib.contextmanager
def locked(path: Path, argument: str) -> Iterator[None]:
    """Holds a lock file; the system releases the lock of a killed process.

    Args:
        path: Of the file, in the folder that is locked.
        argument: Name of the folder's argument in the error message.

    Raises:
        ValueError: If another process holds it.
    """
    try:
        with FileLock(path, timeout=0):
            yield
    except Timeout as error:
        raise ValueError(
            f"`{argument}` must not be written by two processes at once, got {path.parent}, which another "
            "process is writing. Wait until it ends, or choose another folder."
        ) from error


def write_once(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Writes a file of a cache unless it exists; waits for another process that is writing it.

    It gets a temporary name until it is complete. The lock ends with its process: the incomplete file of a
    killed writer is overwritten. The lock file stays, since a process that waits for it may have opened it.

    Args:
        path: Of the file; its folder is created.
        write: Writes the content.
    """
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):
        if not path.exists():
            with replacing(path) as file:
                write(file)


def check_file_output(argument: str, path: Union[str, os.PathLike]) -> None:
    """Raises unless a file can be written at a path; leaves nothing behind.

    Args:
        argument: Name of the argument in the error message.
        path: Of the file; its folder must exist.

    Raises:
        ValueError: If the path is a folder, or its folder does not exist.
        PermissionError: If it cannot be written.
    """
    file = expanded(path).absolute()
    if file.is_dir() or not file.parent.is_dir():
        raise ValueError(f"`{argument}` must be a file in a folder that exists, got {path}.")
    if file.exists() and not file.is_file():
        raise ValueError(f"`{argument}` must be a regular file, which is replaced, got {path}.")
    if file.exists() and not os.access(file, os.W_OK):
        raise PermissionError(f"`{argument}` must be writable, got {path}: Permission denied.")
    _check_writable(argument, path, file.parent)


def check_no_pattern(argument: str, path: Union[str, os.PathLike]) -> None:
    """Raises ValueError if TensorFlow, which takes paths for patterns, finds no checkpoint at a path."""
    absolute = str(expanded(path).absolute())
    if any(character in absolute for character in "[\\"):
        raise ValueError(
            f"`{argument}` must have no [ and no \\ in its path, which TensorFlow takes for a pattern, got "
            f"{absolute}. Rename the folder, or choose another."
        )


def check_folder_output(argument: str, path: Union[str, os.PathLike]) -> None:
    """Raises unless a folder can be created, or written into, at a path; leaves nothing behind.

    Raises:
        NotADirectoryError: If the path, or a part of it, is a file.
        PermissionError: If it cannot be written.
    """
    folder = expanded(path).absolute()
    nearest = next(part for part in (folder, *folder.parents) if os.path.lexists(part))
    if not nearest.is_dir():
        found = ", a file" if nearest == folder else f": {nearest} is a file"
        raise NotADirectoryError(f"`{argument}` must be a folder, got {path}{found}.")
    _check_writable(argument, path, nearest)


def _check_writable(argument: str, path: Union[str, os.PathLike], folder: Path) -> None:
    try:
        # Permission bits say nothing about a read-only disk, and root passes them all.
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise PermissionError(f"`{argument}` must be writable, got {path}: {error.strerror}.") from error
