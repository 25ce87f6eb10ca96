"""A tile: the scores of some queries with some gallery images.

A score is minus half a squared distance, so that the nearest image has the largest.

Shapes: r queries and c gallery images of a tile, n pairs of them.
"""

from __future__ import annotations

import dataclasses
from typing import Optional

import numpy as np

from profs_tf.metrics.exact.class_sorted import Side

# Rows, or columns where they are contiguous, that are compared together.
_LINES = 128

# Pairs whose scores are computed together: what a core's cache holds.
_PAIRS = 256


@dataclasses.dataclass(frozen=True)
class Tile:
    """Scores, and how well they are known.

    Attributes:
        scores: Float32 or float64 `[r, c]`, in either memory order.
        rows: Positions of the queries.
        columns: Positions of the gallery images.
        error: float64 `[r]`, how far a query's scores may be from the true ones.
        begins: int64 `[r]`, ascending, the column where the images of the query's class begin.
        ends: int64 `[r]`, where they end. Both may be outside the tile.
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

    def exact(self, queries: Side, gallery: Side) -> Tile:
        """The tile in float64, with ties lifted to where they count as nearer."""
        scores = queries.rows(self.rows) @ gallery.rows(self.columns).T
        scores -= queries.half_norms[self.rows, None] - queries.ties[self.rows, None] / 2
        scores -= gallery.half_norms[self.columns] - gallery.ties[self.columns] / 2
        return dataclasses.replace(self, scores=scores, error=np.zeros(len(scores)))

    def wrong_at_least(self, bounds: np.ndarray) -> np.ndarray:
        """Which images of other classes than the query's reach its bound.

        Args:
            bounds: float64 `[r]`.

        Returns:
            Bool `[r, c]`, in the scores' memory order.
        """
        reached = self.scores >= self._rounded_up(bounds)[:, None]
        begins, ends = (np.clip(edges, 0, reached.shape[1]) for edges in (self.begins, self.ends))
        concerned = np.flatnonzero(begins < ends)
        if len(concerned):
            for run in np.split(concerned, np.flatnonzero(np.diff(begins[concerned])) + 1):
                reached[run[0] : run[-1] + 1, begins[run[0]] : ends[run[0]]] = False
        return reached

    def list_wrong_at_least(self, bounds: np.ndarray, most: int) -> Optional[tuple[np.ndarray, np.ndarray]]:
        """Lists images of other classes than the query's that reach its bound.

        Args:
            bounds: float64 `[r]`.
            most: How many images are worth a list, those of the query's class included.

        Returns:
            Rows and columns, int64 `[n]` each, or None where there are more than `most`.
        """
        bounds, by_rows = self._rounded_up(bounds), self.scores.flags.c_contiguous
        lines = self.scores if by_rows else self.scores.T
        # As much as a core's cache holds: the comparison takes half the time, and no large memory of its own.
        reached = np.empty((min(_LINES, len(lines)), lines.shape[1]), bool)
        found, number = [np.empty(0, np.int64)], 0
        for start in range(0, len(lines), len(reached)):
            part = lines[start : start + len(reached)]
            limits = bounds[start : start + len(part), None] if by_rows else bounds
            places = np.flatnonzero(np.greater_equal(part, limits, out=reached[: len(part)]))
            number += len(places)
            if number > most:
                return None
            found.append(places + start * lines.shape[1])
        line, place = np.divmod(np.concatenate(found), lines.shape[1])
        rows, columns = (line, place) if by_rows else (place, line)
        wrong = (columns < self.begins[rows]) | (columns >= self.ends[rows])
        return rows[wrong], columns[wrong]

    def _rounded_up(self, bounds: np.ndarray) -> np.ndarray:
        """Bounds of the scores' type that the same scores reach as reach the float64 bounds."""
        if self.scores.dtype != np.float32:
            return bounds
        rounded = bounds.astype(np.float32)
        return np.where(rounded < bounds, np.nextafter(rounded, np.float32(np.inf)), rounded)


def list_places(chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The row and the column of each true element of bool `[r, c]`, int64 `[n]` each."""
    if chosen.flags.c_contiguous:
        return np.divmod(np.flatnonzero(chosen), chosen.shape[1])
    columns, rows = np.divmod(np.flatnonzero(chosen.T), chosen.shape[0])
    return rows, columns


def count_rows(chosen: np.ndarray) -> np.ndarray:
    """How many elements of each row of bool `[r, c]` are true, int64 `[r]`. c is below 65,536."""
    # Bytes added in 16 bits: three times as fast as `count_nonzero` with an axis.
    return chosen.view(np.uint8).sum(axis=1, dtype=np.uint16).astype(np.int64)


def exact_scores(queries: Side, gallery: Side, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Scores of pairs of positions `[n]` as `Tile.exact` has them, float64 `[n]`."""
    scores = np.empty(len(rows))
    for start in range(0, len(rows), _PAIRS):
        pairs = slice(start, start + _PAIRS)
        differences = queries.rows(rows[pairs]) - gallery.rows(columns[pairs])
        scores[pairs] = np.einsum("nd,nd->n", differences, differences) / -2
    return scores + (queries.ties[rows] + gallery.ties[columns]) / 2
