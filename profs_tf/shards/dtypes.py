"""The number types in which embeddings are stored, and what each costs in Recall@1.

Shapes: n images, D embedding dimension.
"""

from __future__ import annotations

import collections
import zlib
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from profs_tf.metrics.retrieval import recall_at_k

DTYPES = ("float32", "float16", "int8")
# The largest code: -128 is not used, so that codes are symmetric.
_LARGEST_CODE = 127


def scale_of(embeddings: np.ndarray) -> float:
    """Returns the scale of int8 codes, `embedding = scale * code`, from a sample of embeddings `[n, D]`.

    The sample's largest absolute value becomes 127. One scale for all values keeps Euclidean distances of
    codes proportional to those of embeddings.
    """
    largest = float(np.abs(embeddings).max())
    # As float32, the type in which readers multiply.
    return float(np.float32(largest / _LARGEST_CODE)) or 1.0


def to_stored(embeddings: np.ndarray, dtype: str, scale: Optional[float]) -> np.ndarray:
    """Converts float32 embeddings `[n, D]` to one of `DTYPES`; int8 codes are rounded and clipped to +-127.

    Raises:
        ValueError: If a value exceeds the range of float16.
    """
    if dtype == "int8":
        codes = np.rint(embeddings / np.float32(scale))
        return np.clip(codes, -_LARGEST_CODE, _LARGEST_CODE).astype(np.int8)
    largest = float(np.abs(embeddings).max(initial=0.0))
    if dtype == "float16" and largest > float(np.finfo(np.float16).max):
        raise ValueError(
            f"`dtype` must hold the embeddings' values, got float16 for {largest:g}. Pass `dtype=float32`."
        )
    return embeddings.astype(dtype)


def to_float(stored: np.ndarray, scale: Optional[float]) -> np.ndarray:
    """Converts stored embeddings `[n, D]` back to float32."""
    embeddings = stored.astype(np.float32)
    return embeddings * np.float32(scale) if stored.dtype == np.int8 else embeddings


def num_clipped(embeddings: np.ndarray, dtype: str, scale: Optional[float]) -> int:
    """Returns how many values lie beyond the range of the int8 codes, by half a step or more."""
    if dtype != "int8":
        return 0
    return int((np.abs(embeddings / np.float32(scale)) >= _LARGEST_CODE + 0.5).sum())


def sample_of_classes(classes: Optional[Sequence[str]], largest: int) -> Optional[np.ndarray]:
    """Selects whole classes, in an order that their names determine, of at most so many images together.

    Args:
        classes: The class of each of N images, "" for none; None if there are no classes.
        largest: Number of images.

    Returns:
        Bool `[N]`, or None if the sample has no two classes, or no class with two images: there is no Recall.
    """
    sizes = collections.Counter(name for name in classes or () if name)
    chosen: set[str] = set()
    room = largest
    for name in sorted(sizes, key=lambda name: (zlib.crc32(name.encode()), name)):
        if sizes[name] <= room:
            chosen.add(name)
            room -= sizes[name]
    if classes is None or len(chosen) < 2 or max(sizes[name] for name in chosen) < 2:
        return None
    return np.array([name in chosen for name in classes])


def measure_loss(
    embeddings: np.ndarray, labels: Sequence[str], dtype: str, scale: Optional[float]
) -> Optional[dict[str, Any]]:
    """Returns Recall@1 of float32 embeddings `[n, D]` and of the same as stored, and the number of images.

    None where no image has another one of its class.
    """
    if len(labels) < 2 or max(collections.Counter(labels).values()) < 2:
        return None
    stored = to_float(to_stored(embeddings, dtype, scale), scale)
    recalls = {
        name: recall_at_k(values, labels, 1)[1] for name, values in (("float32", embeddings), (dtype, stored))
    }
    return {"num_images": len(labels), "recall@1": recalls}
