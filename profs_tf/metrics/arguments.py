"""Checks the arguments of the metrics: embeddings, labels, K.

Shapes: N images, D embedding dimension.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Union, cast

import numpy as np

from profs_tf.utils.array_types import Array, Labels
from profs_tf.utils.checks import check_count
from profs_tf.utils.labels import strings_or_integers

# Elements checked together, so that a check needs no copy of the embeddings.
_CHECK_ELEMENTS = 1 << 22


def check_embeddings(embeddings: Array, argument: str = "embeddings") -> np.ndarray:
    """Returns embeddings as a NumPy array after checks; float16, float32 and float64 arrays are not copied.

    Args:
        embeddings: Floating point `[N, D]`, NumPy or TensorFlow.
        argument: The name of the argument in error messages.

    Returns:
        `[N, D]`, float16, float32 or float64.

    Raises:
        ValueError: If they are no non-empty float matrix, or not all finite.
    """
    array = np.asarray(embeddings)
    if array.ndim != 2:
        raise ValueError(f"`{argument}` must have shape [N, D], got shape {array.shape}.")
    if 0 in array.shape:
        raise ValueError(f"`{argument}` must hold at least one embedding, got shape {array.shape}.")
    if array.dtype.name == "bfloat16":
        array = array.astype(np.float32)
    if array.dtype.kind != "f":
        raise ValueError(
            f"`{argument}` must be floating point, got {array.dtype}. Cast them, for instance to float32."
        )
    if array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    _check_finite(array, argument)
    return array


def _check_finite(array: np.ndarray, argument: str) -> None:
    """Raises ValueError unless all values are finite. O(N D) time, bounded memory."""
    rows = max(1, _CHECK_ELEMENTS // array.shape[1])
    finite = np.concatenate(
        [np.isfinite(array[start : start + rows]).all(axis=1) for start in range(0, len(array), rows)]
    )
    if not finite.all():
        raise ValueError(
            f"`{argument}` must be finite, got {len(finite) - finite.sum()} of {len(finite)} embeddings with "
            f"NaN or infinite values, the first at index {int(np.argmin(finite))}."
        )


def check_directions(array: np.ndarray, argument: str = "embeddings") -> None:
    """Checks that embeddings `[N, D]` have a direction.

    Raises:
        ValueError: If an embedding is all-zero.
    """
    zero = ~array.any(axis=1)
    if zero.any():
        raise ValueError(
            f"`{argument}` must not be all-zero for the cosine distance, got {zero.sum()} of {len(zero)} "
            f"that are, the first at index {int(np.argmax(zero))}."
        )


def check_labels(
    labels: Labels, num_images: int, argument: str = "labels", of: str = "embeddings"
) -> np.ndarray:
    """Returns labels as a NumPy array `[N]` after checks.

    Args:
        labels: `[N]` or `[N, 1]`; integers, whole floats or strings, NumPy or TensorFlow or a sequence.
        num_images: N, the number of embeddings they belong to.
        argument: The name of the argument in error messages.
        of: The name of the embeddings' argument in error messages.

    Returns:
        `[N]`. Strings are `str`; the bytes of TensorFlow are decoded.

    Raises:
        ValueError: If shape, length or kind is wrong.
    """
    array = np.asarray(labels)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(
            f"`{argument}` must have shape [N], one label an image, got shape {array.shape}. "
            "Turn one-hot labels into class numbers with `argmax(axis=1)`."
        )
    if len(array) != num_images:
        raise ValueError(
            f"`{argument}` must be as many as `{of}`, got {len(array)} labels for {num_images} embeddings."
        )
    if array.dtype.kind in "SO":
        array = strings_or_integers(array)
    if array.dtype.kind == "O":
        kinds = ", ".join(sorted({type(label).__name__ for label in array.tolist()}))
        raise ValueError(f"`{argument}` must all be integers or all be strings, got {kinds}. Fill the gaps.")
    if array.dtype.kind not in "iufbU":
        raise ValueError(f"`{argument}` must be integers or strings, got {array.dtype}.")
    if array.dtype.kind == "f":
        for rule, holds in (("finite", np.isfinite(array)), ("whole numbers", array == np.round(array))):
            if not holds.all():
                raise ValueError(f"`{argument}` must be {rule}, got {array[~holds][0]}.")
    return array


def class_numbers(
    labels: np.ndarray, gallery_labels: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers classes from 0 on, alike in both sets. O(N log N).

    Returns:
        int64 `[Q]` and `[N]`; the same array twice if `gallery_labels` is None.

    Raises:
        ValueError: If one set has strings and the other numbers.
    """
    if gallery_labels is None:
        numbers = np.unique(labels, return_inverse=True)[1].astype(np.int64)
        return numbers, numbers
    if (labels.dtype.kind == "U") != (gallery_labels.dtype.kind == "U"):
        raise ValueError(
            "`gallery_labels` must be of the kind of `labels`, "
            f"got {gallery_labels.dtype} and {labels.dtype}."
        )
    both = [labels, gallery_labels]
    # NumPy joins int64 and uint64 to float64, which merges large labels.
    if all(part.dtype.kind in "iu" for part in both) and np.result_type(*both).kind == "f":
        both = [part.astype(object) for part in both]
    numbers = np.unique(np.concatenate(both), return_inverse=True)[1].astype(np.int64)
    return numbers[: len(labels)], numbers[len(labels) :]


def check_ks(ks: Union[int, Iterable[int]], num_candidates: int) -> tuple[int, ...]:
    """Returns the values of K as a tuple of int after checks.

    Args:
        ks: A sequence of integers, or one integer.
        num_candidates: The number of gallery images a query is compared with, except itself.

    Raises:
        ValueError: If there is none, or one is no integer in [1, `num_candidates`].
    """
    values = tuple(cast(Iterable[int], ks)) if np.iterable(ks) else (cast(int, ks),)
    if not values:
        raise ValueError("`ks` must hold at least one K, got none.")
    for k in values:
        check_count("ks", k)
        if k > num_candidates:
            raise ValueError(
                f"`ks` must be <= {num_candidates}, the number of gallery images a query is compared with "
                f"(except itself), got {k}."
            )
    return tuple(int(k) for k in values)
