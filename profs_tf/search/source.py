"""The pictures of an index by name, each with a stamp that changes when the picture does.

N images.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import zlib
from collections.abc import Sequence
from typing import Any, Optional, Union

import numpy as np

from profs_tf.datasets.folder import list_images
from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.decoding import UnreadableImageError, read_image

# A chunk ends at a name whose checksum is divisible by the mean size, or when it is full. Boundaries by name
# keep a chunk the same when pictures are added to or removed from others.
_MEAN_CHUNK = 1024
_LARGEST_CHUNK = 2048

# Size and modification time of a picture that no file shows.
UNKNOWN = (0, 0)

Stamp = list[Any]
"""Name (str), bytes (int), modification time in ns (int) and SHA-256 (str) of a picture."""


@dataclasses.dataclass(frozen=True)
class IndexSource:
    """The pictures to index.

    Attributes:
        root: Folder that the names are relative to; "" where the pictures are in memory.
        names: N paths relative to `root`, with "/"; "CLASS/NUMBER" for pictures in memory.
        images: N absolute paths, or uint8 `[N, H, W, 3]`.
        classes: N class names, or None if the pictures have no classes.
    """

    root: str
    names: tuple[str, ...]
    images: Union[tuple[str, ...], np.ndarray]
    classes: Optional[tuple[str, ...]] = None

    @property
    def is_in_memory(self) -> bool:
        """Whether `images` holds pictures and not paths."""
        return isinstance(self.images, np.ndarray)

    def is_readable(self, position: int) -> bool:
        """Whether a picture can be read now; decodes it."""
        if isinstance(self.images, np.ndarray):
            return True
        try:
            read_image(self.images[position])
        except UnreadableImageError:
            return False
        return True

    def stamps(self, part: slice) -> list[Stamp]:
        """Name, bytes, modification time in ns and SHA-256 (only of pictures in memory) of each picture."""
        if self.is_in_memory:
            return [
                [name, picture.nbytes, 0, hashlib.sha256(np.ascontiguousarray(picture).data).hexdigest()]
                for name, picture in zip(self.names[part], self.images[part])
            ]
        return [[name, *size_and_mtime(path), ""] for name, path in zip(self.names[part], self.images[part])]

    def chunks(self) -> list[slice]:
        """Slices that cover the pictures, about a thousand each; the names determine the boundaries."""
        cuts, start = [], 0
        for position, name in enumerate(self.names, start=1):
            full = position - start == _LARGEST_CHUNK
            if full or position == len(self.names) or zlib.crc32(name.encode()) % _MEAN_CHUNK == 0:
                cuts.append(slice(start, position))
                start = position
        return cuts


def size_and_mtime(path: str) -> tuple[int, int]:
    """Returns a file's bytes and modification time in ns; 0 and 0 if it is missing, as a broken link is."""
    try:
        stat = os.stat(path)
    except OSError:
        return UNKNOWN
    return stat.st_size, stat.st_mtime_ns


def source_of(images: Union[str, os.PathLike, ImageList]) -> IndexSource:
    """Makes a source of a folder (all pictures at any depth in it) or of an `ImageList`.

    Raises:
        NotADirectoryError: If the path is not a folder.
        ValueError: If there is no picture in it, or images have bounding boxes, which no SavedModel supports.
    """
    if not isinstance(images, ImageList):
        paths = list_images(images)
        root = os.path.abspath(os.path.expanduser(images))
        _check_names(paths)
        return IndexSource(root, _relative(paths, root), tuple(os.path.abspath(path) for path in paths))
    if images.boxes is not None:
        raise ValueError(
            f"`images` must have no bounding boxes for a SavedModel, got {images!r}. "
            "Cut the boxes out of the files first."
        )
    classes = tuple(images.class_names[label] for label in images.labels)
    if isinstance(images.images, np.ndarray):
        names = tuple(f"{name}/{number}" for number, name in enumerate(classes))
        return IndexSource("", names, images.images, classes)
    paths = tuple(os.path.abspath(path) for path in images.images)
    _check_names(paths)
    root = os.path.commonpath([os.path.dirname(path) for path in paths])
    return IndexSource(root, _relative(paths, root), paths, classes)


def added_source(
    images: Union[str, os.PathLike, Sequence[Union[str, os.PathLike]], ImageList],
    root: str,
    has_classes: bool,
    has_pictures: bool,
    first: int,
) -> IndexSource:
    """Makes a source of pictures that are added to an index.

    Args:
        images: A folder, paths of picture files, or an `ImageList`.
        root: Of the index, "" if its pictures are no files of one folder. Names of files elsewhere are
            absolute.
        has_classes: Whether the index has classes.
        has_pictures: Whether the index holds its pictures, which were in memory.
        first: The number of the first picture in memory.

    Raises:
        FileNotFoundError: If a path is neither a folder nor a file.
        ValueError: If they do not go with the index.
        TypeError: If they are something else, such as arrays.
    """
    if isinstance(images, ImageList) != has_classes:
        kind = "an ImageList, whose classes are added, for" if has_classes else "a folder or paths for"
        state = "with" if has_classes else "without"
        raise ValueError(f"`images` must be {kind} an index {state} classes, got {type(images).__name__}.")
    if isinstance(images, ImageList):
        source = source_of(images)
        if source.is_in_memory != has_pictures:
            kinds = ("pictures in memory", "files") if has_pictures else ("files", "pictures in memory")
            raise ValueError(f"`images` must be {kinds[0]}, as those of the index are, got {kinds[1]}.")
    elif isinstance(images, (str, os.PathLike)) and not os.path.isfile(os.path.expanduser(images)):
        if not os.path.isdir(os.path.expanduser(images)):
            raise FileNotFoundError(f"`images` must be a folder, or files that exist, got {images}.")
        source = source_of(images)
    else:
        listed = [images] if isinstance(images, (str, os.PathLike)) else _listed(images)
        paths = tuple(os.path.abspath(os.path.expanduser(path)) for path in listed)
        _check_names(paths)
        source = IndexSource(root, paths, paths)
    if source.is_in_memory:
        classes = source.classes or ()
        names = tuple(f"{name}/{number}" for number, name in enumerate(classes, start=first))
    else:
        names = tuple(_name_below(root, path).replace(os.sep, "/") for path in source.images)
    return dataclasses.replace(source, root=root, names=names)


def _name_below(root: str, path: str) -> str:
    """Returns a path relative to `root` if it lies there, also by links of folders; else the path."""
    for folder, file in ((root, path), (_real_folder(root) if root else "", _resolve_folder(path))):
        start = os.path.join(folder, "")
        if start and file.startswith(start):
            return file[len(start) :]
    return path


def _listed(paths: Any) -> list[Union[str, os.PathLike]]:
    listed = list(paths) if hasattr(paths, "__iter__") else [paths]
    if not listed:
        raise ValueError("`images` must hold at least one picture, got none.")
    for path in listed:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(
                f"`images` must be a folder, paths of files or an ImageList, got {type(path).__name__}."
            )
    return listed


def _relative(paths: Sequence[str], root: str) -> tuple[str, ...]:
    """Returns the paths below `root`, with "/"."""
    start = len(os.path.join(root, ""))
    return tuple(os.path.abspath(path)[start:].replace(os.sep, "/") for path in paths)


def _check_names(paths: Sequence[str]) -> None:
    for path in paths:
        try:
            path.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ValueError(f"`images` must have paths in UTF-8, got {path!r}. Rename the file.") from error


def positions_by_path(root: str, names: Sequence[str]) -> dict[str, int]:
    """Returns the position of each named file by its path."""
    paths = (_resolve_folder(os.path.join(root, name)) for name in names)
    return {path: position for position, path in enumerate(paths)}


def find_path(positions: dict[str, int], path: Union[str, os.PathLike]) -> int:
    """Returns the position of a file, or -1; first as a link that was itself indexed, then as its target."""
    found = positions.get(_resolve_folder(os.fspath(path)), -1)
    return found if found >= 0 else positions.get(os.path.realpath(path), -1)


def _resolve_folder(path: str) -> str:
    """Returns a file's path with the links of its folder resolved; the file itself may be a link."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(_real_folder(folder), name)


@functools.lru_cache(maxsize=1024)
def _real_folder(folder: str) -> str:
    return os.path.realpath(folder)
