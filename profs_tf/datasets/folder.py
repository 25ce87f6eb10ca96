"""Your own images in a folder: each sub-folder is a class."""

from __future__ import annotations

import collections
import dataclasses
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Optional, Union

import numpy as np

from profs_tf.datasets.class_split import TrainClasses, check_split, split_by_class
from profs_tf.datasets.image_list import ImageList
from profs_tf.utils.files import expanded

_LOG = logging.getLogger(__name__)
# What profs_tf.inputs.decoding reads.
IMAGE_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png")
_PARTS = frozenset(("train", "query", "gallery"))
_SPLIT_NAMES = frozenset(
    ("train", "training", "test", "testing", "val", "valid", "validation", "eval", "query", "gallery")
)


def from_folder(
    path: Union[str, os.PathLike], train_classes: Optional[TrainClasses] = None
) -> tuple[ImageList, ImageList]:
    """Returns (train, test) of the images in a folder, split by class.

    A folder with the sub-folders ``train``, ``query`` and ``gallery``, each with class folders in it, is
    split by these: the test list holds queries and gallery, with `is_query`.

    Args:
        path: The folder, see ``list_folder``.
        train_classes: Which classes train, see ``split_by_class``. None means 0.5, or what ``train`` holds.

    Raises:
        NotADirectoryError: If ``path`` is not a folder.
        ValueError: As ``list_folder`` and ``split_by_class``.
    """
    root = expanded(path)
    if root.is_dir() and {entry.name for entry in root.iterdir() if entry.is_dir()} >= _PARTS:
        if train_classes is not None:
            raise ValueError(
                f"`train_classes` must be left out for a folder with train, query and gallery, got {root}."
            )
        return _from_parts(root)
    return split_by_class(list_folder(path), 0.5 if train_classes is None else train_classes)


def _from_parts(root: Path) -> tuple[ImageList, ImageList]:
    others = sorted(entry.name for entry in root.iterdir() if entry.is_dir() and entry.name not in _PARTS)
    if others:
        _LOG.warning("%s: ignored beside train, query and gallery: %s.", root, ", ".join(others))
    train, query, gallery = (list_folder(root / name) for name in ("train", "query", "gallery"))
    labels = [part.class_names[label] for part in (query, gallery) for label in part.labels]
    name = root.resolve().name or str(root)
    test = dataclasses.replace(
        ImageList.from_labels([*query.images, *gallery.images], labels, f"{name} test"),
        is_query=np.arange(len(labels)) < len(query),
    )
    train = dataclasses.replace(train, name=f"{name} train")
    check_split(train, test)
    return train, test


def list_folder(path: Union[str, os.PathLike]) -> ImageList:
    """Returns all images in a folder as one list of file paths.

    Each folder directly in ``path`` is a class of the same name; its images may lie at any depth in it.
    Classes are sorted by name and images by path, whatever the order in which the file system lists them.
    Ignored are hidden files and folders (their name starts with a dot), folders without images, files without
    the suffix of an image (in upper or lower case), and images outside any class folder. They are counted in
    a logged warning.

    Raises:
        NotADirectoryError: If ``path`` is not a folder.
        PermissionError: If a folder cannot be listed.
        ValueError: If no class folder holds an image, or the folders in ``path`` seem to be splits (``train``
            and ``test``) or categories, which hold the class folders.
    """
    root = expanded(path)
    if not root.is_dir():
        raise NotADirectoryError(f"`path` must be a folder with a sub-folder for each class, got {root}.")
    files: list[str] = []
    labels: list[str] = []
    ignored: collections.Counter[str] = collections.Counter()
    for entry in sorted(_entries(str(root)), key=lambda entry: entry.name):
        if _is_shown_folder(entry):
            images = _list_images(Path(entry.path), ignored)
            ignored["empty class folders"] += not images
            files += images
            labels += [entry.name] * len(images)
        else:
            ignored[_reason(entry) or "images outside any class folder"] += 1
    if not files:
        raise ValueError(
            f"`path` must have a sub-folder with images ({', '.join(IMAGE_SUFFIXES)}) for each class, "
            f"got none in {root}{_counts(ignored)}."
        )
    _check_depth(root, _sub_folders(root, files))
    if sum(ignored.values()):
        _LOG.warning("%s: ignored%s.", root, _counts(ignored))
    return ImageList.from_labels(files, labels, root.resolve().name or str(root))


def list_images(folder: Union[str, os.PathLike]) -> tuple[str, ...]:
    """Returns the paths of all images in a folder at any depth, sorted; there are no classes.

    Hidden files and folders, and files without the suffix of an image, are ignored.

    Raises:
        NotADirectoryError: If ``folder`` is not a folder.
        PermissionError: If a folder in it cannot be listed.
        ValueError: If it holds no image.
    """
    root = expanded(folder)
    if not root.is_dir():
        raise NotADirectoryError(f"`folder` must be a folder with images, got {root}.")
    ignored: collections.Counter[str] = collections.Counter()
    found = _list_images(root, ignored)
    if not found:
        raise ValueError(
            f"`folder` must hold images ({', '.join(IMAGE_SUFFIXES)}), got none in {root}{_counts(ignored)}."
        )
    return tuple(found)


def files_exist(paths: Sequence[str]) -> np.ndarray:
    """Returns which paths are files, bool ``[N]``; lists each folder once, faster than N stats."""
    listed = {folder: _file_names(folder) for folder in {os.path.dirname(path) for path in paths}}
    return np.array([os.path.basename(path) in listed[os.path.dirname(path)] for path in paths], bool)


def _file_names(folder: str) -> set[str]:
    """Returns the names of the files in a folder, links to files included; empty if there is no folder."""
    if not os.path.isdir(folder):
        return set()
    with os.scandir(folder) as entries:
        # `DirEntry.is_file` would raise for a circle of links.
        return {
            entry.name
            for entry in entries
            if entry.is_file(follow_symlinks=False) or (entry.is_symlink() and os.path.isfile(entry.path))
        }


def _list_images(folder: Path, ignored: collections.Counter[str]) -> list[str]:
    """Returns the images in a folder at any depth, sorted; follows links to folders, but not in circles."""
    found: list[str] = []
    seen: set[str] = set()
    pending = [str(folder)]
    while pending:
        parent = pending.pop()
        real = os.path.realpath(parent)
        if real in seen:
            continue
        seen.add(real)
        folders: list[str] = []
        for entry in _entries(parent):
            if _is_shown_folder(entry):
                folders.append(entry.path)
            elif reason := _reason(entry):
                ignored[reason] += 1
            else:
                found.append(entry.path)
        # Depth first, in order: of two links to one folder the first counts.
        pending += sorted(folders, reverse=True)
    return sorted(found)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        raise PermissionError(
            f"Folders of images must be readable, got {folder}: {error.strerror}. Change its permissions, or "
            "move it elsewhere."
        ) from error


def _is_shown_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir() and not entry.name.startswith(".")
    except OSError:
        # A circle of links.
        return False


def _sub_folders(root: Path, files: Sequence[str]) -> dict[str, set[str]]:
    """Returns the sub-folders with images of each folder in the root; "" stands for the folder itself."""
    found: dict[str, set[str]] = collections.defaultdict(set)
    for file in files:
        folder, *below, _ = os.path.relpath(file, root).split(os.sep)
        found[folder].add(below[0] if below else "")
    return dict(found)


def _check_depth(root: Path, sub_folders: Mapping[str, set[str]]) -> None:
    """Raises ValueError if the folders in the root hold class folders rather than the images of a class.

    A class may have sub-folders, too, such as one per view. Hence the error needs three signs: no image lies
    directly in a folder; folders hold two sub-folders or more on average; and either no two sub-folders share
    a name, as classes of categories, or the folders are named as splits are.
    """
    counts = {folder: len(names) for folder, names in sub_folders.items()}
    if not _hold_class_folders(sub_folders):
        return
    shown = ", ".join(f"{folder} ({count} folders)" for folder, count in list(counts.items())[:3])
    best = max(counts, key=lambda folder: (folder.lower().startswith("train"), counts[folder]))
    with_split = " and split" if any(map(_are_splits, (sub_folders, sub_folders[best]))) else ""
    if _are_splits(sub_folders[best]):
        best = os.path.join(best, max(sub_folders[best], key=lambda name: name.lower().startswith("train")))
    raise ValueError(
        f"`path` must be a folder with a sub-folder for each class, got {root}, whose sub-folders hold "
        f"folders of images themselves: {shown}{', ...' if len(counts) > 3 else ''}. If these are the "
        f"classes, use folder:{root / best}, or a CSV file that lists the images of all with their class"
        f"{with_split} (see docs/own_pictures.md)."
    )


def _hold_class_folders(sub_folders: Mapping[str, set[str]]) -> bool:
    names = set().union(*sub_folders.values())
    total = sum(map(len, sub_folders.values()))
    if "" in names or total < 2 * len(sub_folders):
        return False
    return _are_splits(sub_folders) or total == len(names)


def _are_splits(names: Iterable[str]) -> bool:
    return {name.lower() for name in names} <= _SPLIT_NAMES


def _reason(entry: os.DirEntry[str]) -> str:
    """Returns why a file is ignored, or an empty string for an image, or a link that may lead to one."""
    if entry.name.startswith("."):
        return "hidden"
    is_file = entry.is_symlink() or entry.is_file(follow_symlinks=False)
    return "" if is_file and entry.name.lower().endswith(IMAGE_SUFFIXES) else "not images"


def _counts(ignored: collections.Counter[str]) -> str:
    listed = ", ".join(f"{count} {reason}" for reason, count in sorted(ignored.items()) if count)
    return f" ({listed})" if listed else ""
