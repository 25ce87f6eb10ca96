"""How near each query's right images are: the thresholds that wrong images are counted against.

A score is minus half a squared distance, so that the nearest image has the largest.

Shapes: Q queries, N gallery images, R right images of a query, T thresholds of all queries together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from profs_tf.metrics.sides import Side

# Elements of the largest block of distances within a class.
_BLOCK_ELEMENTS = 1 << 22

# Rows converted together.
_BUFFERED = 1024


@dataclasses.dataclass(frozen=True)
class Thresholds:
    """The scores of queries' right images, nearest first, query after query.

    Attributes:
        starts: int64 `[Q + 1]`, where each query's begin.
        scores: float64 `[T]`.
    """

    starts: np.ndarray
    scores: np.ndarray

    def first_at_most(self, begin: np.ndarray, end: np.ndarray, values: np.ndarray) -> np.ndarray:
        """The first place in [begin, end) whose score is at most the value; `end` where there is none.

        Args:
            begin: int64 `[n]`.
            end: int64 `[n]`.
            values: float64 `[n]`.

        Returns:
            int64 `[n]`. By halving, O(n log R).
        """
        for _ in range(int((end - begin).max(initial=0)).bit_length()):
            middle = (begin + end) // 2
            reached = self.scores[np.minimum(middle, len(self.scores) - 1)] <= values
            unfinished = begin < end
            begin = np.where(unfinished & ~reached, middle + 1, begin)
            end = np.where(unfinished & reached, middle, end)
        return begin


def count_right(queries: Side, gallery: Side, own_set: bool) -> np.ndarray:
    """R of each query, int64 `[Q]`: the images of its class in the gallery, itself not counted."""
    begin, end = gallery.class_range(queries.classes)
    return end - begin - own_set


def nearest_right(queries: Side, gallery: Side, own_set: bool) -> Thresholds:
    """One threshold a query, its nearest right image; none where it has none.

    O(D times the sum of squared class sizes) time.
    """
    counts = np.minimum(count_right(queries, gallery, own_set), 1)
    blocks = _class_scores(queries, gallery, own_set, slice(0, len(queries)))
    return _thresholds(counts, [scores.max(axis=1) for scores in blocks])


def all_right(queries: Side, gallery: Side, own_set: bool, positions: slice) -> Thresholds:
    """R thresholds for each query at `positions`. Time as `nearest_right`."""
    counts = count_right(queries, gallery, own_set)[positions]
    parts = []
    for scores in _class_scores(queries, gallery, own_set, positions):
        ordered = -np.sort(-scores, axis=1)
        parts.append(ordered[:, : ordered.shape[1] - own_set].ravel())
    return _thresholds(counts, parts)


def _thresholds(counts: np.ndarray, parts: list) -> Thresholds:
    return Thresholds(np.concatenate([[0], np.cumsum(counts)]), np.concatenate([np.empty(0), *parts]))


def _class_scores(queries: Side, gallery: Side, own_set: bool, positions: slice) -> Iterator[np.ndarray]:
    """Yields float64 scores `[n, images of the class in the gallery]` of one class's queries after another's.

    In its own set a query's score with itself is -inf. Classes without a right image are passed over.
    """
    classes = np.unique(queries.classes[positions])
    starts, ends = (np.clip(edge, positions.start, positions.stop) for edge in queries.class_range(classes))
    begins, stops = gallery.class_range(classes)
    query_rows, right_rows = _RowBuffer(queries), _RowBuffer(gallery)
    for start, end, begin, stop in zip(starts.tolist(), ends.tolist(), begins.tolist(), stops.tolist()):
        if stop - begin - own_set < 1:
            continue
        right, half_norms = right_rows.take(begin, stop), gallery.half_norms[begin:stop]
        step = max(1, _BLOCK_ELEMENTS // (stop - begin))
        for first in range(start, end, step):
            last = min(first + step, end)
            scores = query_rows.take(first, last) @ right.T
            scores -= half_norms
            scores -= queries.half_norms[first:last, None]
            np.minimum(scores, 0, out=scores)
            if own_set:
                places = np.arange(last - first)
                scores[places, places + first - begin] = -np.inf
            yield scores


class _RowBuffer:
    """Rows of a side at rising positions, converted to float64 many at a time: classes are often small."""

    def __init__(self, side: Side) -> None:
        self._side, self._start, self._rows = side, 0, np.empty((0, 0))

    def take(self, start: int, stop: int) -> np.ndarray:
        """Float64 rows at positions [start, stop)."""
        if start < self._start or stop > self._start + len(self._rows):
            self._start = start
            self._rows = self._side.rows(slice(start, max(stop, start + _BUFFERED)))
        return self._rows[start - self._start : stop - self._start]
