"""Anyone's pictures in a folder: each sub-folder is a class."""

from __future__ import annotations

import collections
import logging
import os
from pathlib import Path
from typing import Union

from profs_tf.datasets.class_split import TrainClasses, split_by_class
from profs_tf.datasets.image_list import ImageList

_LOG = logging.getLogger(__name__)
# What profs_tf.inputs.preprocessing decodes.
IMAGE_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png")


def from_folder(
    path: Union[str, os.PathLike], train_classes: TrainClasses = 0.5
) -> tuple[ImageList, ImageList]:
    """Returns (train, test) of the pictures in a folder, split by class.

    Args:
        path: as for ``list_folder``.
        train_classes: which classes train: see ``split_by_class``.
    """
    return split_by_class(list_folder(path), train_classes)


def list_folder(path: Union[str, os.PathLike]) -> ImageList:
    """Returns all pictures in a folder as one list of file paths.

    Each folder directly in ``path`` is a class, named as the folder is; its pictures may lie at any depth in
    it. Classes are in the order of their names, pictures in the order of their paths within, so the order in
    which the file system lists them never matters. Left out: hidden files and folders (a name that begins
    with a dot), folders without a picture, files that are not pictures by their suffix (upper case or lower),
    and pictures outside any class folder. What is left out is counted and logged.

    Raises:
        NotADirectoryError: if ``path`` is not a folder.
        ValueError: if there is no picture in any class folder.
    """
    root = Path(path).expanduser()
    if not root.is_dir():
        raise NotADirectoryError(f"`path` must be a folder with a sub-folder for each class, got {root}.")
    files: list[str] = []
    labels: list[str] = []
    ignored: collections.Counter[str] = collections.Counter()
    for entry in sorted(os.listdir(root)):
        if (root / entry).is_dir() and not entry.startswith("."):
            pictures = _pictures(root / entry, ignored)
            ignored["empty class folders"] += not pictures
            files += pictures
            labels += [entry] * len(pictures)
        else:
            ignored[_reason(entry) or "pictures outside any class folder"] += 1
    if not files:
        raise ValueError(
            f"`path` must have a sub-folder with pictures ({', '.join(IMAGE_SUFFIXES)}) for each class, "
            f"got none in {root}{_counts(ignored)}."
        )
    if sum(ignored.values()):
        _LOG.warning("%s: left out%s.", root, _counts(ignored))
    return ImageList.from_labels(files, labels, root.resolve().name or str(root))


def list_pictures(path: Union[str, os.PathLike]) -> tuple[str, ...]:
    """Returns the paths of all pictures in a folder at any depth, sorted; classes do not matter.

    Left out: hidden files and folders, and files that are not pictures by their suffix.

    Raises:
        NotADirectoryError: if ``path`` is not a folder.
        ValueError: if there is no picture in it.
    """
    root = Path(path).expanduser()
    if not root.is_dir():
        raise NotADirectoryError(f"`path` must be a folder with pictures, got {root}.")
    ignored: collections.Counter[str] = collections.Counter()
    found = _pictures(root, ignored)
    if not found:
        raise ValueError(
            f"`path` must have pictures ({', '.join(IMAGE_SUFFIXES)}) in it, got none in {root}"
            f"{_counts(ignored)}."
        )
    return tuple(found)


def _pictures(folder: Path, ignored: collections.Counter[str]) -> list[str]:
    """Returns the pictures in a folder at any depth, sorted; follows linked folders, but not in circles."""
    found, seen = [], set()
    for parent, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(parent)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        ignored["hidden"] += sum(name.startswith(".") for name in folders)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in names:
            reason = _reason(name)
            if reason:
                ignored[reason] += 1
            else:
                found.append(os.path.join(parent, name))
    return sorted(found)


def _reason(file_name: str) -> str:
    """Returns why a file is not taken, or an empty string if it is a picture."""
    if file_name.startswith("."):
        return "hidden"
    return "" if file_name.lower().endswith(IMAGE_SUFFIXES) else "not pictures"


def _counts(ignored: collections.Counter[str]) -> str:
    listed = ", ".join(f"{count} {reason}" for reason, count in sorted(ignored.items()) if count)
    return f" ({listed})" if listed else ""
