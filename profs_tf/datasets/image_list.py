"""ImageList: images, their class labels and the names of the classes. Imports no TensorFlow.

Shapes: N images, L classes; H, W the height and width in pixels.
"""

from __future__ import annotations

import collections
import dataclasses
import numbers
import os
from collections.abc import Iterable, Sequence
from typing import Any, Optional, Union

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class ImageList:
    """N images with one class each, the form in which every data set of this package is loaded.

    Immutable: the arrays are read-only, and methods return new lists.

    Attributes:
        images: uint8 ``[N, H, W, 3]`` RGB images in memory (not copied), or a tuple of N file paths.
        labels: int64 ``[N]``, dense class indices in 0..L-1. For any other labels use ``from_labels``.
        class_names: Tuple of L distinct strings; ``class_names[labels[i]]`` is the class of image i.
        name: Name of the list in messages and reports.
        boxes: None, or float32 ``[N, 4]`` bounding boxes: x and y of the upper left corner, width and height,
            in pixels of the image in the file. The paper's protocols do not crop to them.
        is_query: None where every image is a query and all others are its gallery, as in the paper; or bool
            ``[N]``: queries, which are compared with the images that are no queries.

    Raises:
        ValueError: If a field is invalid or two do not match; the message names the field, rule and value.
    """

    images: Union[np.ndarray, Sequence[str]]
    labels: np.ndarray
    class_names: Sequence[str]
    name: str = "images"
    boxes: Optional[np.ndarray] = None
    is_query: Optional[np.ndarray] = None

    def __post_init__(self) -> None:
        images = _checked_images(self.images)
        class_names = _checked_class_names(self.class_names)
        labels = _checked_labels(self.labels, len(images), len(class_names))
        boxes = None if self.boxes is None else _checked_boxes(self.boxes, len(images))
        is_query = None if self.is_query is None else _checked_queries(self.is_query, len(images))
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"`name` must be a non-empty string, got {self.name!r}.")
        for field, value in (
            ("images", images),
            ("labels", labels),
            ("class_names", class_names),
            ("boxes", boxes),
            ("is_query", is_query),
        ):
            object.__setattr__(self, field, value)

    @classmethod
    def from_labels(
        cls,
        images: Union[np.ndarray, Sequence[Union[str, os.PathLike]]],
        labels: Union[np.ndarray, Iterable[int], Iterable[str]],
        name: str = "images",
        boxes: Optional[np.ndarray] = None,
    ) -> ImageList:
        """Creates a list from labels that are arbitrary integers or strings.

        Classes are numbered in the sorted order of the labels (integers by value, strings by code point) and
        named after them, so the result does not depend on the order of the images. O(N + L log L) time.

        Args:
            images: See the attribute.
            labels: N integers (also negative, not contiguous, or above 2**31) or N strings.
            name: See the attribute.
            boxes: See the attribute.

        Raises:
            ValueError: If the labels are not one-dimensional, or neither all integers nor all strings.
        """
        values = _plain_labels(labels)
        classes = sorted(set(values))
        index_of = {value: index for index, value in enumerate(classes)}
        indices = np.array([index_of[value] for value in values], np.int64)
        return cls(_checked_images(images), indices, tuple(str(value) for value in classes), name, boxes)

    @property
    def num_images(self) -> int:
        """N."""
        return len(self.labels)

    @property
    def num_classes(self) -> int:
        """L, including classes without images."""
        return len(self.class_names)

    @property
    def class_sizes(self) -> np.ndarray:
        """Number of images of each class, int64 ``[L]``. O(N) time."""
        return np.bincount(self.labels, minlength=self.num_classes)

    @property
    def is_in_memory(self) -> bool:
        """Whether ``images`` is an array of pixels; otherwise it holds file paths."""
        return isinstance(self.images, np.ndarray)

    @property
    def num_candidates(self) -> int:
        """Number of images that each query is compared with: the largest K of Recall@K."""
        return self.num_images - (1 if self.is_query is None else int(self.is_query.sum()))

    def take(self, indices: Union[np.ndarray, Sequence[int], Sequence[bool]]) -> ImageList:
        """Returns the images at ``indices`` (integers, or a boolean mask ``[N]``), in that order.

        Classes keep their index and name, even if none of their images is taken.

        Raises:
            ValueError: If ``indices`` is empty, not one-dimensional, of another type, or out of range.
        """
        chosen = _checked_indices("indices", indices, self.num_images)
        images = self.images
        return dataclasses.replace(
            self,
            images=images[chosen] if isinstance(images, np.ndarray) else tuple(images[i] for i in chosen),
            labels=self.labels[chosen],
            boxes=None if self.boxes is None else self.boxes[chosen],
            is_query=None if self.is_query is None else self.is_query[chosen],
        )

    def subset_of_classes(
        self, class_indices: Union[np.ndarray, Sequence[int], Sequence[bool]], name: Optional[str] = None
    ) -> ImageList:
        """Returns the images of some classes, in their present order, with the classes renumbered.

        Class ``class_indices[j]`` becomes class j. O(N) time.

        Args:
            class_indices: Distinct class indices, or a boolean mask ``[L]``.
            name: Name of the new list; None keeps the name.

        Raises:
            ValueError: If an index is out of range or repeated, or the classes have no image.
        """
        chosen = _checked_indices("class_indices", class_indices, self.num_classes)
        if len(np.unique(chosen)) != len(chosen):
            raise ValueError(f"`class_indices` must be distinct, got {_shortened(chosen.tolist())}.")
        new_index = np.full(self.num_classes, -1, np.int64)
        new_index[chosen] = np.arange(len(chosen))
        kept = np.flatnonzero(new_index[self.labels] >= 0)
        if not len(kept):
            raise ValueError("`class_indices` must include a class that has images, got only empty ones.")
        part = self.take(kept)
        return dataclasses.replace(
            part,
            labels=new_index[part.labels],
            class_names=tuple(self.class_names[c] for c in chosen),
            name=name or self.name,
        )

    def __len__(self) -> int:
        return self.num_images

    def __repr__(self) -> str:
        kind = "files"
        if isinstance(self.images, np.ndarray):
            kind = f"{self.images.shape[2]}x{self.images.shape[1]} in memory"
        return f"ImageList({self.name!r}: {self.num_images} images of {self.num_classes} classes, {kind})"


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


def _shortened(values: Sequence[object]) -> str:
    shown = ", ".join(repr(value) for value in values[:5])
    return f"[{shown}, ...] ({len(values)} in all)" if len(values) > 5 else f"[{shown}]"


def _checked_images(images: Any) -> Union[np.ndarray, tuple[str, ...]]:
    if isinstance(images, np.ndarray) and images.dtype.kind not in "UO":
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] != 3 or 0 in images.shape:
            raise ValueError(
                "`images` in memory must be a uint8 array of shape [N, H, W, 3] without an empty axis, "
                f"got {images.dtype} {list(images.shape)}."
            )
        return _read_only(images)
    if isinstance(images, (str, bytes, os.PathLike)):
        raise ValueError(f"`images` must be a sequence of file paths, got the single path {images!r}.")
    paths = []
    for path in images:
        text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
        if not isinstance(text, str) or not text:
            raise ValueError(f"`images` must hold pixels or non-empty path strings, got the item {path!r}.")
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ValueError(f"`images` must have paths in UTF-8, got {text!r}. Rename the file.") from error
        paths.append(str(text))
    if not paths:
        raise ValueError("`images` must hold at least one image, got none.")
    return tuple(paths)


def _checked_class_names(class_names: Any) -> tuple[str, ...]:
    names = tuple(class_names)
    if isinstance(class_names, str) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"`class_names` must be a sequence of strings, got {_shortened(class_names)}.")
    if not names:
        raise ValueError("`class_names` must hold at least one name, got none.")
    if len(set(names)) != len(names):
        repeated = [name for name, count in collections.Counter(names).items() if count > 1]
        raise ValueError(f"`class_names` must be distinct, got more than once: {_shortened(repeated)}.")
    return tuple(str(name) for name in names)


def _checked_labels(labels: Any, num_images: int, num_classes: int) -> np.ndarray:
    array = np.asarray(labels)
    if array.dtype.kind not in "iu":
        raise ValueError(
            f"`labels` must be integers, got {array.dtype}. Use ImageList.from_labels for other labels."
        )
    if array.shape != (num_images,):
        raise ValueError(
            f"`labels` must have one dimension, one label for each of the {num_images} images, got shape "
            f"{list(array.shape)}."
        )
    if array.min() < 0 or array.max() >= num_classes:
        raise ValueError(
            f"`labels` must be class indices in 0..{num_classes - 1}, got values from {array.min()} to "
            f"{array.max()}. Use ImageList.from_labels for other labels."
        )
    return _read_only(array.astype(np.int64))


def _checked_boxes(boxes: Any, num_images: int) -> np.ndarray:
    array = np.array(boxes, np.float32)
    if array.shape != (num_images, 4):
        raise ValueError(f"`boxes` must have shape [{num_images}, 4], got {list(array.shape)}.")
    wrong = np.flatnonzero(~(np.isfinite(array).all(axis=1) & (array[:, 2:] > 0).all(axis=1)))
    if len(wrong):
        row = wrong[0]
        raise ValueError(
            "`boxes` must be finite, with a width and a height above 0, got "
            f"{array[row].tolist()} in row {row} ({len(wrong)} such rows)."
        )
    return _read_only(array)


def _checked_queries(is_query: Any, num_images: int) -> np.ndarray:
    array = np.asarray(is_query)
    if array.shape != (num_images,) or array.dtype != np.bool_ or array.all() or not array.any():
        raise ValueError(
            f"`is_query` must be {num_images} booleans, true for some images and false for others, got "
            f"{array.dtype} {list(array.shape)} with {int(array.astype(bool).sum())} true."
        )
    return _read_only(array.copy())


def _checked_indices(argument: str, indices: Any, size: int) -> np.ndarray:
    array = np.asarray(indices)
    if array.ndim != 1 or not array.size:
        raise ValueError(
            f"`{argument}` must be a one-dimensional, non-empty sequence, got shape {list(array.shape)}."
        )
    if array.dtype == np.bool_:
        if array.shape != (size,) or not array.any():
            raise ValueError(
                f"`{argument}` as a mask must have {size} entries, at least one of them True, "
                f"got {array.size} entries, {int(array.sum())} of them True."
            )
        return np.flatnonzero(array)
    if array.dtype.kind not in "iu":
        raise ValueError(f"`{argument}` must be integers or a boolean mask, got {array.dtype}.")
    if array.min() < 0 or array.max() >= size:
        raise ValueError(
            f"`{argument}` must be in 0..{size - 1}, got values from {array.min()} to {array.max()}."
        )
    return array.astype(np.int64)


def _plain_labels(labels: Any) -> list[Any]:
    values = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    if isinstance(labels, (str, bytes)) or not isinstance(values, list):
        raise ValueError(f"`labels` must be a sequence of integers or strings, got {labels!r}.")
    for rule in (numbers.Integral, str):
        if all(isinstance(value, rule) for value in values):
            return values
    kinds = sorted({type(value).__name__ for value in values})
    raise ValueError(
        f"`labels` must be all integers or all strings, in one dimension, got {', '.join(kinds)}. "
        "Give one label per image (no one-hot rows)."
    )
