"""Splits an ImageList by class: into training and test classes, or into training and validation classes.

Also what any split must satisfy, and what two splits have in common.
"""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Sequence
from typing import Union

import numpy as np

from profs_tf.datasets.image_list import ImageList
from profs_tf.utils.files import expanded

TrainClasses = Union[float, str, os.PathLike, Sequence[str]]
# With one class there are no negatives and every neighbor is a hit: loss 0 and Recall 100 % mean nothing.
MIN_CLASSES = 2


def split_by_class(images: ImageList, train_classes: TrainClasses = 0.5) -> tuple[ImageList, ImageList]:
    """Returns (train, test): two lists without a class in common, classes in their present order.

    Args:
        images: The list to split; at least 4 classes.
        train_classes: The training classes; all others test. A fraction takes the first classes, their number
            rounded down. Otherwise a sequence of class names, or the path of a text file with one class name
            per line.

    Raises:
        ValueError: If the fraction is not between 0 and 1, a name is unknown, or fewer than two classes would
            be left to train or to test.
    """
    _check_divisible(images, "train_classes")
    if isinstance(train_classes, (float, numbers.Real)):
        is_train = _first_classes(images.num_classes, float(train_classes))
    else:
        is_train = _named_classes(images, train_classes)
    _check_counts("train_classes", ("training", "test"), int(is_train.sum()), int((~is_train).sum()))
    return (
        images.subset_of_classes(np.flatnonzero(is_train), f"{images.name} train"),
        images.subset_of_classes(np.flatnonzero(~is_train), f"{images.name} test"),
    )


def hold_out_classes(train: ImageList, fraction: float) -> tuple[ImageList, ImageList]:
    """Returns (train, validation): the training classes split once more, classes in their present order.

    Hyperparameters tuned on the test classes overfit to them. The validation classes are unseen in training,
    too, and take no part in the final scores. They are drawn by a shuffle, since neighbors in the order of
    names resemble each other; the shuffle is the same in every run, so runs can be compared.

    Args:
        train: The training split; at least 4 classes.
        fraction: The fraction of its classes to hold out, their number rounded down.

    Raises:
        ValueError: If the fraction is not between 0 and 1, or fewer than two classes would be left to train
            or to validate.
    """
    if not 0 < fraction < 1:
        raise ValueError(f"`validation_classes` must be between 0 and 1, got {fraction}.")
    _check_divisible(train, "validation_classes")
    # NumPy guarantees that the stream of RandomState never changes.
    order = np.random.RandomState(0).permutation(train.num_classes)
    count = math.floor(train.num_classes * fraction)
    _check_counts("validation_classes", ("training", "validation"), train.num_classes - count, count)
    stem = train.name[: -len(" train")] if train.name.endswith(" train") else train.name
    return (
        train.subset_of_classes(np.sort(order[:-count]), f"{stem} train"),
        train.subset_of_classes(np.sort(order[-count:]), f"{stem} validation"),
    )


def check_split(train: ImageList, test: ImageList) -> None:
    """Raises ValueError unless each list has images of at least two classes."""
    counts = [int(np.count_nonzero(part.class_sizes)) for part in (train, test)]
    if min(counts) < MIN_CLASSES:
        raise ValueError(
            f"A split must have at least {MIN_CLASSES} training and {MIN_CLASSES} test classes, got "
            f"{counts[0]} in {train!r} and {counts[1]} in {test!r}."
        )


def shared_classes(train: ImageList, test: ImageList) -> tuple[str, ...]:
    """Returns the names of the classes that have images in both lists, in the order of `test`.

    Test classes are unseen only if there are none. Splits made by `split_by_class` share no class; a split
    column of a CSV file may.
    """
    trained = {train.class_names[index] for index in np.flatnonzero(train.class_sizes)}
    tested = (test.class_names[index] for index in np.flatnonzero(test.class_sizes))
    return tuple(name for name in tested if name in trained)


def _check_divisible(images: ImageList, argument: str) -> None:
    if images.num_classes < 2 * MIN_CLASSES:
        raise ValueError(
            f"`{argument}` needs at least {2 * MIN_CLASSES} classes to split, got {images.num_classes} in "
            f"{images!r}."
        )


def _check_counts(argument: str, parts: tuple[str, str], *counts: int) -> None:
    if min(counts) < MIN_CLASSES:
        raise ValueError(
            f"`{argument}` must leave at least {MIN_CLASSES} {parts[0]} and {MIN_CLASSES} {parts[1]} "
            f"classes, got {counts[0]} and {counts[1]}."
        )


def _first_classes(num_classes: int, fraction: float) -> np.ndarray:
    if not 0 < fraction < 1:
        raise ValueError(f"`train_classes` as a fraction must be between 0 and 1, got {fraction}.")
    return np.arange(num_classes) < math.floor(num_classes * fraction)


def _named_classes(images: ImageList, train_classes: Union[str, os.PathLike, Sequence[str]]) -> np.ndarray:
    if isinstance(train_classes, (str, os.PathLike)):
        path = expanded(train_classes)
        if not path.is_file():
            raise ValueError(
                f"`train_classes` must be a fraction, class names or a file of them, got {path}."
            )
        try:
            text = path.read_text("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(
                f"`train_classes` must be a UTF-8 text file if it is one, got {path}: {error}."
            ) from error
        # Names may start or end with a space: strip nothing but the end of the line.
        names = {line for line in text.splitlines() if line}
    else:
        names = set(train_classes)
    unknown = sorted(names - set(images.class_names), key=str)
    if unknown:
        raise ValueError(
            f"`train_classes` must be classes of {images!r}, got the unknown {_some(unknown)}. "
            f"Its classes: {_some(images.class_names)}."
        )
    return np.array([name in names for name in images.class_names])


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:10])
    return f"{shown} and {len(names) - 10} more" if len(names) > 10 else shown
