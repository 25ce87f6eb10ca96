"""Embeddings in the form in which they are compared: sorted by class, centered and scaled.

Distances do not depend on the origin nor, but for a factor, on the unit. With the origin at the gallery's
mean and values of at most 1, float32 resolves the differences of embeddings instead of what they have in
common: embeddings that have nearly collapsed to a point are ranked as well as any others, and no square
overflows.

A score is minus half a squared distance, so that the nearest image has the largest.

Shapes: N images, Q queries, D embedding dimension, n of the images.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Union

import numpy as np

from profs_tf.metrics.exact.ties import tie_widths
from profs_tf.utils.checks import check_one_of
from profs_tf.utils.threads import in_threads

DISTANCES = ("euclidean", "cosine")

# Elements converted to float64 together: what a core's cache holds.
_BLOCK_ELEMENTS = 1 << 17

# The relative error of one float32 operation.
_ROUNDING = 2.0**-24

# Below this, a float32 product may lose its digits to underflow.
_UNDERFLOW = 1e-35


@dataclasses.dataclass(frozen=True)
class Centering:
    """Maps embeddings to centered float64 rows with values in [-1, 1].

    Attributes:
        cosine: Whether embeddings are normalized first, so that distances are those of directions.
        scale: A power of two that embeddings are multiplied by.
        center: float64 `[D]`, subtracted afterwards.
    """

    cosine: bool
    scale: float
    center: np.ndarray

    def rows(self, embeddings: np.ndarray, indices: Union[np.ndarray, slice]) -> np.ndarray:
        """Float64 rows `[n, D]` of the embeddings at `indices` (an array or a slice)."""
        rows = embeddings[indices].astype(np.float64)
        if self.cosine:
            # By the largest value first, or the squares of small ones would underflow.
            rows /= np.abs(rows).max(axis=1, keepdims=True)
            rows *= self.scale / np.sqrt(np.einsum("nd,nd->n", rows, rows))[:, None]
        else:
            rows *= self.scale
        rows -= self.center
        return rows

    def norms_sq(self, embeddings: np.ndarray) -> np.ndarray:
        """Squared norms of all rows, float64 `[N]`."""

        def of_block(block: slice) -> np.ndarray:
            rows = self.rows(embeddings, block)
            return np.einsum("nd,nd->n", rows, rows)

        return np.concatenate(list(in_threads(of_block, row_blocks(embeddings.shape))))


def fit_centering(distance: str, gallery: np.ndarray, queries: np.ndarray | None = None) -> Centering:
    """Finds the centering for a gallery and, unless they are the gallery itself, its queries.

    Args:
        distance: "euclidean" or "cosine".
        gallery: Float `[N, D]`, finite; with "cosine" not all-zero.
        queries: Float `[Q, D]` likewise, or None.

    Returns:
        The centering. O((N + Q) D) time.

    Raises:
        ValueError: If `distance` is unknown.
    """
    check_one_of("distance", distance, DISTANCES)
    cosine, sets = distance == "cosine", [gallery] if queries is None else [gallery, queries]
    largest = 1.0 if cosine else max(float(max(part.max(), -part.min())) for part in sets)
    centering = Centering(cosine, _to_one(largest, 960), np.zeros(gallery.shape[1]))
    (total, low, high), *others = (_column_totals(centering, part) for part in sets)
    center = total / len(gallery)
    for _, other_low, other_high in others:
        low, high = np.minimum(low, other_low), np.maximum(high, other_high)
    # The limits keep the product of both factors finite even for the smallest float64.
    factor = _to_one(float(np.maximum(high - center, center - low).max()), 60)
    return Centering(cosine, centering.scale * factor, center * factor)


def _column_totals(centering: Centering, embeddings: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sum, least and largest of each column of the rows, float64 `[D]` each."""

    def of_block(block: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows = centering.rows(embeddings, block)
        return rows.sum(axis=0), rows.min(axis=0), rows.max(axis=0)

    totals, lows, highs = zip(*in_threads(of_block, row_blocks(embeddings.shape)))
    return np.sum(totals, axis=0), np.min(lows, axis=0), np.max(highs, axis=0)


def row_blocks(shape: tuple[int, ...]) -> Iterator[slice]:
    """Slices of the rows of an array `[N, D]` whose float64 copies are small."""
    rows = max(1, _BLOCK_ELEMENTS // shape[1])
    return (slice(start, min(start + rows, shape[0])) for start in range(0, shape[0], rows))


def _to_one(largest: float, most: int) -> float:
    """The power of two, up to 2 ** `most`, that scales `largest` to [1/2, 1); 1 for 0."""
    return float(np.ldexp(1.0, min(-int(np.frexp(largest)[1]), most)))


class EmbeddingSet:
    """Queries or gallery, sorted by class, so that the images of a class are a range of positions.

    Attributes:
        order: int64 `[N]`, the image at each position.
        classes: int64 `[N]`, the class at each position, ascending.
        half_norms: float64 `[N]`, half the squared norm at each position.
        tie_widths: float64 `[N]`, the tie width at each position.
        width: Columns of a float32 block, D + 2.
    """

    def __init__(self, embeddings: np.ndarray, classes: np.ndarray, centering: Centering) -> None:
        """Sorts embeddings `[N, D]` by their classes `[N]`, without a copy of the embeddings."""
        self._embeddings, self._centering = embeddings, centering
        self.order = np.argsort(classes, kind="stable")
        self.classes = classes[self.order]
        self.half_norms = centering.norms_sq(embeddings)[self.order] / 2
        norms_sq = np.full(len(embeddings), centering.scale**2) if centering.cosine else 2 * self.half_norms
        self.tie_widths = tie_widths(norms_sq)
        self.width = embeddings.shape[1] + 2

    def __len__(self) -> int:
        return len(self.order)

    def rows(self, positions: Union[np.ndarray, slice]) -> np.ndarray:
        """Float64 `[n, D]`, the rows at `positions` (an array or a slice)."""
        return self._centering.rows(self._embeddings, self.order[positions])

    def float32_block(self, positions: slice) -> np.ndarray:
        """Float32 `[n, D + 2]`, whose products with the `mirrored` block of another set are scores.

        The product of (x, 1, -|x|^2/2) and (y, -|y|^2/2, 1) is x.y - |x|^2/2 - |y|^2/2 = -|x - y|^2/2.
        """
        block = np.ones((positions.stop - positions.start, self.width), np.float32)
        for part in row_blocks(block.shape):
            block[part, :-2] = self._centering.rows(self._embeddings, self.order[positions][part])
        block[:, -1] = -self.half_norms[positions]
        return block

    def class_range(self, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where each class begins and ends, int64 `[n]` each; equal for a class without images."""
        return np.searchsorted(self.classes, classes, "left"), np.searchsorted(self.classes, classes, "right")


def mirrored(block: np.ndarray) -> np.ndarray:
    """A `float32_block` with its last two columns exchanged: the other factor of the product."""
    return np.concatenate([block[:, :-2], block[:, :-3:-1]], axis=1)


def score_error(queries: EmbeddingSet, gallery: EmbeddingSet, rows: slice, columns: slice) -> np.ndarray:
    """By how much a score from float32 blocks may differ from the true score, raised by a tie or not.

    A sum of n products in any order is within n u / (1 - n u) times the sum of the products' magnitudes
    (Higham 2002, section 3.1), which here is at most |x|^2 + |y|^2; rounding the operands to float32 adds 3 u
    times half of that. This is a bound, not an estimate: scores further apart need no second look.

    Args:
        queries: The queries.
        gallery: The gallery.
        rows: Positions of queries.
        columns: Positions of gallery images.

    Returns:
        float64 `[n]`, a bound for each query at `rows` and all gallery images at `columns`.
    """
    largest = queries.half_norms[rows] + gallery.half_norms[columns].max()
    tie = queries.tie_widths[rows] + gallery.tie_widths[columns].max()
    return (2.04 * queries.width + 4) * _ROUNDING * largest + tie + _UNDERFLOW
