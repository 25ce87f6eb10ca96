"""What an index is made of: pictures by name, each with a stamp that tells whether it has changed.

N images.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import zlib
from collections.abc import Sequence
from typing import Any, Optional, Union

import numpy as np

from profs_tf.datasets.folder import list_images
from profs_tf.datasets.image_list import ImageList

# A chunk ends at a name whose checksum this divides, or where it is full. Cut by names, chunks stay the same
# where pictures come or go in others.
_MEAN_CHUNK = 1024
_LARGEST_CHUNK = 2048

Stamp = list[Any]
"""Name (str), bytes (int), time of change in ns (int) and SHA-256 (str) of a picture."""


@dataclasses.dataclass(frozen=True)
class IndexSource:
    """Pictures to be indexed.

    Attributes:
        root: folder that the names are relative to; "" where the pictures are in memory.
        names: N paths relative to `root`, with "/", or for pictures in memory "CLASS/NUMBER".
        images: N absolute paths, or uint8 `[N, H, W, 3]`.
        classes: N names of classes, or None where pictures have none.
    """

    root: str
    names: tuple[str, ...]
    images: Union[tuple[str, ...], np.ndarray]
    classes: Optional[tuple[str, ...]] = None

    @property
    def is_in_memory(self) -> bool:
        """Whether `images` holds pictures and not paths."""
        return isinstance(self.images, np.ndarray)

    def stamps(self, part: slice) -> list[Stamp]:
        """Name, bytes, time of change in ns and SHA-256 of each picture; the hash only of those in memory.

        A file that is not there, such as a link that leads nowhere, has 0 bytes; it cannot be read later.
        """
        if self.is_in_memory:
            return [
                [name, picture.nbytes, 0, hashlib.sha256(np.ascontiguousarray(picture).data).hexdigest()]
                for name, picture in zip(self.names[part], self.images[part])
            ]
        return [
            [name, *_size_and_change(path), ""] for name, path in zip(self.names[part], self.images[part])
        ]

    def chunks(self) -> list[slice]:
        """Slices that cover the pictures, of about a thousand each, cut where names say so."""
        cuts, start = [], 0
        for position, name in enumerate(self.names, start=1):
            full = position - start == _LARGEST_CHUNK
            if full or position == len(self.names) or zlib.crc32(name.encode()) % _MEAN_CHUNK == 0:
                cuts.append(slice(start, position))
                start = position
        return cuts


def _size_and_change(path: str) -> tuple[int, int]:
    try:
        stat = os.stat(path)
    except FileNotFoundError:
        return 0, 0
    return stat.st_size, stat.st_mtime_ns


def source_of(images: Union[str, os.PathLike, ImageList]) -> IndexSource:
    """Makes a source of a folder (all pictures at any depth in it) or of an `ImageList`.

    Raises:
        NotADirectoryError: the path is no folder.
        ValueError: there is no picture in it, or images have bounding boxes, which no saved embedder takes.
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
    root = os.path.commonpath([os.path.dirname(path) for path in paths])
    return IndexSource(root, _relative(paths, root), paths, classes)


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
