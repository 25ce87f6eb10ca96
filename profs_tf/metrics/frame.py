"""The frame of reference in which embeddings are compared.

Distances do not change with the origin nor, but for a factor, with the unit. With the origin in the middle of
the gallery and norms of at most 1, float32 resolves what tells embeddings apart instead of what they have in
common: embeddings that have nearly collapsed to a point are ranked as well as any others, and no square
overflows.

Shapes: N images, Q queries, D embedding dimension.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

DISTANCES = ("euclidean", "cosine")

# Elements converted to float64 in one go.
_BLOCK_ELEMENTS = 1 << 21


@dataclasses.dataclass(frozen=True)
class Frame:
    """Maps embeddings to float64 rows around the origin with norms of at most 1.

    Attributes:
        cosine: Whether embeddings are normalised first, so that distances are those of directions.
        scale: A power of two, the unit.
        centre: float64 `[D]`, the origin, in that unit.
    """

    cosine: bool
    scale: float
    centre: np.ndarray

    def rows(self, embeddings: np.ndarray, indices) -> np.ndarray:
        """Float64 rows `[n, D]` of the embeddings at `indices` (an array or a slice)."""
        rows = embeddings[indices].astype(np.float64)
        if self.cosine:
            # The largest value first, lest the squares of small ones vanish.
            rows /= np.abs(rows).max(axis=1, keepdims=True)
            rows *= self.scale / np.sqrt(np.einsum("nd,nd->n", rows, rows))[:, None]
        else:
            rows *= self.scale
        rows -= self.centre
        return rows

    def norms_sq(self, embeddings: np.ndarray) -> np.ndarray:
        """Squared norms of all rows, float64 `[N]`."""
        norms_sq = np.empty(len(embeddings))
        for block in _blocks(embeddings):
            rows = self.rows(embeddings, block)
            norms_sq[block] = np.einsum("nd,nd->n", rows, rows)
        return norms_sq


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
    scale = 1.0 if cosine else _to_one(max(float(max(part.max(), -part.min())) for part in sets), 960)
    frame = Frame(cosine, scale, np.zeros(gallery.shape[1]))
    total = sum(frame.rows(gallery, block).sum(axis=0) for block in _blocks(gallery))
    frame = dataclasses.replace(frame, centre=total / len(gallery))
    largest_sq = max(float(frame.norms_sq(part).max()) for part in sets)
    # The limits, of what the smallest float64 would ask for, keep the product of both finite.
    factor = _to_one(np.sqrt(largest_sq), 60)
    return Frame(cosine, scale * factor, frame.centre * factor)


def _blocks(embeddings: np.ndarray) -> Iterator[slice]:
    """Slices that cover the rows of `[N, D]` in pieces small enough for a float64 copy."""
    rows = max(1, _BLOCK_ELEMENTS // embeddings.shape[1])
    return (slice(start, start + rows) for start in range(0, len(embeddings), rows))


def _to_one(largest: float, most: int) -> float:
    """The power of two, up to 2 ** `most`, that brings `largest` into [1/2, 1); 1 for 0."""
    return float(np.ldexp(1.0, min(-int(np.frexp(largest)[1]), most)))
