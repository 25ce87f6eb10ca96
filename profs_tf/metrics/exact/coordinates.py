"""The frame of reference in which embeddings are compared.

Distances do not change with the origin nor, but for a factor, with the unit. With the origin in the middle of
the gallery and values of at most 1, float32 resolves what tells embeddings apart instead of what they have in
common: embeddings that have nearly collapsed to a point are ranked as well as any others, and no square
overflows.

Shapes: N images, Q queries, D embedding dimension.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Union

import numpy as np

from profs_tf.utils.threads import in_threads

DISTANCES = ("euclidean", "cosine")

# Elements converted to float64 in one go: what a core's cache holds.
_BLOCK_ELEMENTS = 1 << 17


@dataclasses.dataclass(frozen=True)
class Frame:
    """Maps embeddings to float64 rows around the origin, whose values are in [-1, 1].

    Attributes:
        cosine: Whether embeddings are normalized first, so that distances are those of directions.
        scale: A power of two, the unit.
        center: float64 `[D]`, the origin, in that unit.
    """

    cosine: bool
    scale: float
    center: np.ndarray

    def rows(self, embeddings: np.ndarray, indices: Union[np.ndarray, slice]) -> np.ndarray:
        """Float64 rows `[n, D]` of the embeddings at `indices` (an array or a slice)."""
        rows = embeddings[indices].astype(np.float64)
        if self.cosine:
            # The largest value first, lest the squares of small ones vanish.
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


def fit_frame(distance: str, gallery: np.ndarray, queries: np.ndarray | None = None) -> Frame:
    """Finds the frame for a gallery and, where they are not the gallery itself, for the queries.

    Args:
        distance: "euclidean" or "cosine".
        gallery: Float `[N, D]`, finite; with "cosine" not all-zero.
        queries: Float `[Q, D]` likewise, or None.

    Returns:
        The frame. O((N + Q) D) time.

    Raises:
        ValueError: Unknown `distance`.
    """
    if distance not in DISTANCES:
        raise ValueError(f"`distance` must be one of {', '.join(DISTANCES)}, got {distance!r}.")
    cosine, sets = distance == "cosine", [gallery] if queries is None else [gallery, queries]
    largest = 1.0 if cosine else max(float(max(part.max(), -part.min())) for part in sets)
    frame = Frame(cosine, _to_one(largest, 960), np.zeros(gallery.shape[1]))
    (total, low, high), *others = (_column_totals(frame, part) for part in sets)
    center = total / len(gallery)
    for _, other_low, other_high in others:
        low, high = np.minimum(low, other_low), np.maximum(high, other_high)
    # The limits, of what the smallest float64 would ask for, keep the product of both finite.
    factor = _to_one(float(np.maximum(high - center, center - low).max()), 60)
    return Frame(cosine, frame.scale * factor, center * factor)


def _column_totals(frame: Frame, embeddings: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sum, least and largest of each column of the rows, float64 `[D]` each."""

    def of_block(block: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows = frame.rows(embeddings, block)
        return rows.sum(axis=0), rows.min(axis=0), rows.max(axis=0)

    totals, lows, highs = zip(*in_threads(of_block, row_blocks(embeddings.shape)))
    return np.sum(totals, axis=0), np.min(lows, axis=0), np.max(highs, axis=0)


def row_blocks(shape: tuple[int, ...]) -> Iterator[slice]:
    """Slices that cover the rows of an `[N, D]` in pieces whose float64 copy is small."""
    rows = max(1, _BLOCK_ELEMENTS // shape[1])
    return (slice(start, min(start + rows, shape[0])) for start in range(0, shape[0], rows))


def _to_one(largest: float, most: int) -> float:
    """The power of two, up to 2 ** `most`, that brings `largest` into [1/2, 1); 1 for 0."""
    return float(np.ldexp(1.0, min(-int(np.frexp(largest)[1]), most)))
