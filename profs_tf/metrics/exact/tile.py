"""A tile: the scores of some queries and some gallery images, and which of them reach a bound.

Shapes: r queries and c gallery images of a tile, n pairs of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Optional

import numpy as np

from profs_tf.metrics.exact.embeddings import EmbeddingSet
from profs_tf.metrics.exact.ties import raise_negatives

# Rows, or columns where they are contiguous, that are compared together.
_LINES = 128

# Pairs whose scores are computed together: what a core's cache holds.
_PAIRS = 256


@dataclasses.dataclass(frozen=True)
class Tile:
    """Scores with their error bounds.

    Attributes:
        scores: Float32 or float64 `[r, c]`, in either memory order.
        rows: Positions of the queries.
        columns: Positions of the gallery images.
        error: float64 `[r]`, a bound of the error of a query's scores.
        begins: int64 `[r]`, ascending, the first column of the query's class.
        ends: int64 `[r]`, the column after its last. Both may be outside the tile.
    """

    scores: np.ndarray
    rows: slice
    columns: slice
    error: np.ndarray
    begins: np.ndarray
    ends: np.ndarray

    def part(self, rows: slice) -> Tile:
        """Some rows of the tile."""
        return Tile(
            self.scores[rows],
            slice(self.rows.start + rows.start, self.rows.start + rows.stop),
            self.columns,
            self.error[rows],
            self.begins[rows],
            self.ends[rows],
        )

    def exact(self, queries: EmbeddingSet, gallery: EmbeddingSet) -> Tile:
        """The tile in float64, raised by `ties.raise_negatives`."""
        scores = queries.rows(self.rows) @ gallery.rows(self.columns).T
        scores -= queries.half_norms[self.rows, None] - queries.tie_widths[self.rows, None] / 2
        scores -= gallery.half_norms[self.columns] - gallery.tie_widths[self.columns] / 2
        return dataclasses.replace(self, scores=scores, error=np.zeros(len(scores)))

    def negatives_at_least(self, bounds: np.ndarray) -> np.ndarray:
        """Which negatives reach the bound of their query.

        Args:
            bounds: float64 `[r]`.

        Returns:
            Bool `[r, c]`, in the scores' memory order.
        """
        reached = self.scores >= self._rounded_up(bounds)[:, None]
        begins, ends = (np.clip(edges, 0, reached.shape[1]) for edges in (self.begins, self.ends))
        with_positives = np.flatnonzero(begins < ends)
        if len(with_positives):
            for run in np.split(with_positives, np.flatnonzero(np.diff(begins[with_positives])) + 1):
                reached[run[0] : run[-1] + 1, begins[run[0]] : ends[run[0]]] = False
        return reached

    def list_negatives_at_least(
        self, bounds: np.ndarray, most: int
    ) -> Optional[tuple[np.ndarray, np.ndarray]]:
        """Lists the negatives that reach the bound of their query.

        Args:
            bounds: float64 `[r]`.
            most: The largest number of images to list, positives included.

        Returns:
            Rows and columns, int64 `[n]` each, or None if more than `most` images reach the bound.
        """
        bounds, by_rows = self._rounded_up(bounds), self.scores.flags.c_contiguous
        lines = self.scores if by_rows else self.scores.T
        # What a core's cache holds: half the time of one comparison, and no large temporary.
        reached = np.empty((min(_LINES, len(lines)), lines.shape[1]), bool)
        found, count = [np.empty(0, np.int64)], 0
        for start in range(0, len(lines), len(reached)):
            part = lines[start : start + len(reached)]
            limits = bounds[start : start + len(part), None] if by_rows else bounds
            flat = np.flatnonzero(np.greater_equal(part, limits, out=reached[: len(part)]))
            count += len(flat)
            if count > most:
                return None
            found.append(flat + start * lines.shape[1])
        line, offset = np.divmod(np.concatenate(found), lines.shape[1])
        rows, columns = (line, offset) if by_rows else (offset, line)
        negative = (columns < self.begins[rows]) | (columns >= self.ends[rows])
        return rows[negative], columns[negative]

    def _rounded_up(self, bounds: np.ndarray) -> np.ndarray:
        """The least values of the scores' type that are at least the float64 bounds."""
        if self.scores.dtype != np.float32:
            return bounds
        rounded = bounds.astype(np.float32)
        return np.where(rounded < bounds, np.nextafter(rounded, np.float32(np.inf)), rounded)


def nonzero_pairs(chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The row and the column of each true element of bool `[r, c]`, int64 `[n]` each."""
    if chosen.flags.c_contiguous:
        return np.divmod(np.flatnonzero(chosen), chosen.shape[1])
    columns, rows = np.divmod(np.flatnonzero(chosen.T), chosen.shape[0])
    return rows, columns


def count_rows(chosen: np.ndarray) -> np.ndarray:
    """How many elements of each row of bool `[r, c]` are true, int64 `[r]`. c is below 65,536."""
    # A sum of bytes in 16 bits is three times as fast as `count_nonzero` with an axis.
    return chosen.view(np.uint8).sum(axis=1, dtype=np.uint16).astype(np.int64)


def exact_scores(
    queries: EmbeddingSet, gallery: EmbeddingSet, rows: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    """Scores of pairs of positions `[n]`, raised as in `Tile.exact`, float64 `[n]`."""
    scores = pair_scores(queries.rows, gallery.rows, rows, columns)
    return raise_negatives(scores, queries.tie_widths[rows], gallery.tie_widths[columns])


def pair_scores(
    query_rows: Callable[[np.ndarray], np.ndarray],
    gallery_rows: Callable[[np.ndarray], np.ndarray],
    rows: np.ndarray,
    columns: np.ndarray,
) -> np.ndarray:
    """Minus half the squared distances of pairs `[n]`, float64 `[n]`.

    Args:
        query_rows: From int64 `[m]` to new float64 `[m, D]`, the queries at these rows.
        gallery_rows: Likewise the gallery images.
        rows: int64 `[n]`.
        columns: int64 `[n]`.
    """
    scores = np.empty(len(rows))
    for start in range(0, len(rows), _PAIRS):
        pairs = slice(start, start + _PAIRS)
        differences = query_rows(rows[pairs])
        differences -= gallery_rows(columns[pairs])
        scores[pairs] = np.einsum("nd,nd->n", differences, differences) / -2
    return scores
