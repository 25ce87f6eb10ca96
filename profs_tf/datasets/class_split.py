"""Splits an ImageList by class: into classes that train and that test, into those that train and validate."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Union

import numpy as np

from profs_tf.datasets.image_list import ImageList

TrainClasses = Union[float, str, os.PathLike, Sequence[str]]


def split_by_class(images: ImageList, train_classes: TrainClasses = 0.5) -> tuple[ImageList, ImageList]:
    """Returns (train, test): two lists without a class in common, classes in their present order.

    Args:
        images: the whole.
        train_classes: which classes train. A fraction of the classes, from the first one on, rounded down but
            at least one; or a sequence of class names; or the path of a text file with one class name a line.

    Raises:
        ValueError: if the fraction is not between 0 and 1, a name is unknown, or no class is left to test.
    """
    if images.num_classes < 2:
        raise ValueError(
            f"`train_classes` needs at least 2 classes to split, got {images.num_classes} in {images!r}."
        )
    if isinstance(train_classes, (float, numbers.Real)):
        trains = _first_classes(images.num_classes, float(train_classes))
    else:
        trains = _named_classes(images, train_classes)
    return (
        images.subset_of_classes(np.flatnonzero(trains), f"{images.name} train"),
        images.subset_of_classes(np.flatnonzero(~trains), f"{images.name} test"),
    )


def hold_out_classes(train: ImageList, fraction: float) -> tuple[ImageList, ImageList]:
    """Returns (train, validation): training classes parted once more, classes in their present order.

    Choosing values on the classes that are reported in the end would overfit to them; these are unseen, too,
    and have no part in the report. A shuffle draws them, since neighbours in the order of names are alike;
    it is the same for every run, so that runs can be compared.

    Args:
        train: the training split.
        fraction: of its classes that are held out, rounded down but at least one.

    Raises:
        ValueError: if the fraction is not between 0 and 1, or there is one class only.
    """
    if not 0 < fraction < 1:
        raise ValueError(f"`validation_classes` must be between 0 and 1, got {fraction}.")
    if train.num_classes < 2:
        raise ValueError(
            f"`validation_classes` needs at least 2 classes to split, got {train.num_classes} in {train!r}."
        )
    # Of NumPy's generators the one whose stream is frozen.
    order = np.random.RandomState(0).permutation(train.num_classes)
    count = max(1, math.floor(train.num_classes * fraction))
    stem = train.name[: -len(" train")] if train.name.endswith(" train") else train.name
    return (
        train.subset_of_classes(np.sort(order[:-count]), f"{stem} train"),
        train.subset_of_classes(np.sort(order[-count:]), f"{stem} validation"),
    )


def _first_classes(num_classes: int, fraction: float) -> np.ndarray:
    if not 0 < fraction < 1:
        raise ValueError(f"`train_classes` as a fraction must be between 0 and 1, got {fraction}.")
    return np.arange(num_classes) < max(1, math.floor(num_classes * fraction))


def _named_classes(images: ImageList, train_classes: Union[str, os.PathLike, Sequence[str]]) -> np.ndarray:
    if isinstance(train_classes, (str, os.PathLike)):
        path = Path(train_classes)
        if not path.is_file():
            raise ValueError(
                f"`train_classes` must be a fraction, class names or a file of them, got {path}."
            )
        # A name may begin or end with a space: only the line's end is cut off.
        names = {line for line in path.read_text("utf-8-sig").splitlines() if line}
    else:
        names = set(train_classes)
    unknown = sorted(names - set(images.class_names), key=str)
    if unknown:
        raise ValueError(
            f"`train_classes` must be classes of {images!r}, got the unknown {_some(unknown)}. "
            f"Its classes: {_some(images.class_names)}."
        )
    if not names or len(names) == images.num_classes:
        raise ValueError(
            f"`train_classes` must leave classes on both sides, got {len(names)} of {images.num_classes}."
        )
    return np.array([name in names for name in images.class_names])


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:10])
    return f"{shown} and {len(names) - 10} more" if len(names) > 10 else shown
