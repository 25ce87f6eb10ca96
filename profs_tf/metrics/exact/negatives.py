"""Counts the negatives that are at least as near to a query as its positives.

Float32 scores decide all but the few negatives within the error bound of a threshold; float64 decides those.
So the counts are those of float64, at the cost of float32.

Shapes: r queries and c gallery images of a tile, R positives of a query, T thresholds of all queries, n
pairs.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from profs_tf.metrics.exact.embeddings import EmbeddingSet, score_error
from profs_tf.metrics.exact.positives import Thresholds
from profs_tf.metrics.exact.tile import Tile, count_rows, exact_scores, nonzero_pairs

# Up to this fraction of a tile, negatives are listed one by one; above, whole rows are counted or computed
# anew.
_SPARSE = 1 / 64

# Rows of a tile that are counted together.
_ROWS = 256


@dataclasses.dataclass(frozen=True)
class _Range:
    """The thresholds of some queries: indices [begins, ends), int64 `[r]` each."""

    begins: np.ndarray
    ends: np.ndarray

    def part(self, rows: slice) -> _Range:
        return _Range(self.begins[rows], self.ends[rows])


class NegativeCounter:
    """Counts, for each threshold, the negatives whose score reaches it but not the threshold before it.

    So the sum of a query's first j counts is the number of negatives at least as near as its j-th positive.

    Beyond the first, a threshold matters only while its positive may be among the R nearest images. The
    others are dropped as the counts grow, and their counts stay unfinished.
    """

    def __init__(
        self,
        queries: EmbeddingSet,
        gallery: EmbeddingSet,
        thresholds: Thresholds,
        num_positives: np.ndarray,
        offset: int = 0,
    ) -> None:
        """Starts at zero.

        Args:
            queries: The queries.
            gallery: The gallery.
            thresholds: Of the queries from position `offset` on.
            num_positives: int64, R of the same queries.
            offset: The position of the first query that is counted for.
        """
        self._queries, self._gallery, self._thresholds = queries, gallery, thresholds
        self._num_positives, self._offset = num_positives, offset
        self._ends = thresholds.starts[1:].copy()
        self._class_begins, self._class_ends = gallery.class_range(queries.classes)
        self._counts = np.zeros(len(thresholds.scores), np.int64)

    def has_no_negatives(self, rows: slice, columns: slice) -> bool:
        """Whether all gallery images at `columns` are of the class of every query at `rows`. O(r)."""
        within = self._class_begins[rows].max() <= columns.start
        return bool(within and self._class_ends[rows].min() >= columns.stop)

    def count(self, scores: np.ndarray, rows: slice, columns: slice) -> np.ndarray:
        """Counts negatives by float32 scores `[r, c]`, for `add`. Threads may call it concurrently.

        Returns:
            int64, one count for each threshold of the queries at `rows`.
        """
        error = score_error(self._queries, self._gallery, rows, columns)
        begins, ends = (edges[rows] - columns.start for edges in (self._class_begins, self._class_ends))
        tile = Tile(scores, rows, columns, error, begins, ends)
        local = self._local(rows)
        # A copy: the results of other threads may drop thresholds meanwhile.
        span = _Range(self._thresholds.starts[local], self._ends[local].copy())
        listed = tile.list_negatives_at_least(
            self._score(span, span.ends - 1) - tile.error, int(_SPARSE * scores.size)
        )
        if listed is not None:
            return self._count_listed(tile, *listed, span)
        blocks = [slice(first, min(first + _ROWS, len(scores))) for first in range(0, len(scores), _ROWS)]
        return np.concatenate([self._count_rows(tile.part(block), span.part(block)) for block in blocks])

    def add(self, rows: slice, counts: np.ndarray) -> None:
        """Adds the counts of `count` for the queries at `rows`, and drops thresholds that cannot matter."""
        local = self._local(rows)
        starts = self._thresholds.starts[local.start : local.stop + 1]
        self._counts[starts[0] : starts[-1]] += counts
        if len(counts) < len(starts):
            return  # At most one threshold for each query, which is never dropped.
        query, ranks = self._ranks(local)
        within = np.bincount(query, ranks <= self._num_positives[local][query], len(starts) - 1).astype(
            np.int64
        )
        kept = np.maximum(within, np.minimum(1, np.diff(starts)))
        self._ends[local] = np.minimum(self._ends[local], starts[:-1] + kept)

    def ranks(self) -> tuple[np.ndarray, np.ndarray]:
        """The query (counted from `offset`) and the rank of each threshold's positive, int64 `[T]` each.

        Exact for the nearest positive and for ranks up to R; other ranks are above R but may be too small.
        """
        return self._ranks(slice(0, len(self._ends)))

    def _local(self, rows: slice) -> slice:
        return slice(rows.start - self._offset, rows.stop - self._offset)

    def _ranks(self, local: slice) -> tuple[np.ndarray, np.ndarray]:
        starts = self._thresholds.starts[local.start : local.stop + 1]
        sizes = np.diff(starts)
        query = np.repeat(np.arange(len(sizes)), sizes)
        total = np.concatenate([[0], np.cumsum(self._counts[starts[0] : starts[-1]])])
        first = (starts[:-1] - starts[0])[query]
        index = np.arange(len(query))
        return query, index - first + 1 + total[index + 1] - total[first]

    def _score(self, span: _Range, indices: np.ndarray) -> np.ndarray:
        """The scores of one threshold for each query, float64 `[r]`; inf for queries without a positive."""
        scores = self._thresholds.scores[np.minimum(indices, len(self._thresholds.scores) - 1)]
        return np.where(span.begins < span.ends, scores, np.inf)

    def _count_listed(self, tile: Tile, rows: np.ndarray, columns: np.ndarray, span: _Range) -> np.ndarray:
        """Counts the pairs at some rows and columns of the tile, int64 `[n]` each."""
        scores, error = tile.scores[rows, columns].astype(np.float64), tile.error[rows]
        begins, ends = span.begins[rows], span.ends[rows]
        indices = self._thresholds.first_at_most(begins, ends, scores + error)
        latest = self._thresholds.first_at_most(indices, ends, scores - error)
        unclear = np.flatnonzero(indices < latest)
        if len(unclear):
            exact = self._exact_scores(tile, rows[unclear], columns[unclear])
            indices[unclear] = self._thresholds.first_at_most(indices[unclear], latest[unclear], exact)
        local = self._local(tile.rows)
        first, last = self._thresholds.starts[[local.start, local.stop]]
        return np.bincount(indices[indices < ends] - first, minlength=last - first)

    def _exact_scores(self, tile: Tile, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        if len(rows) > _SPARSE * tile.scores.size:
            return tile.exact(self._queries, self._gallery).scores[rows, columns]
        rows, columns = rows + tile.rows.start, columns + tile.columns.start
        return exact_scores(self._queries, self._gallery, rows, columns)

    def _count_rows(self, tile: Tile, span: _Range) -> np.ndarray:
        """Counts by rows the negatives that reach the first threshold, and the others one by one."""
        given, span = span, self._tighten(tile, span)
        first, last = self._score(span, span.begins), self._score(span, span.ends - 1)
        sure = tile.negatives_at_least(first + tile.error)
        others = np.greater(tile.negatives_at_least(first - tile.error), sure)
        if np.count_nonzero(others) > _SPARSE * sure.size:
            tile = tile.exact(self._queries, self._gallery)
            sure = tile.negatives_at_least(first)
            others = np.zeros_like(sure)
        if (last < first).any():
            others = np.greater(tile.negatives_at_least(last - tile.error), sure)
        counts = self._count_listed(tile, *nonzero_pairs(others), span)
        counted = np.flatnonzero(span.begins < span.ends)
        start = self._thresholds.starts[self._local(tile.rows).start]
        counts[span.begins[counted] - start] += count_rows(sure)[counted]
        # Negatives at dropped thresholds were not counted; R more keep these ranks above R.
        dropped = np.flatnonzero(span.ends < given.ends)
        counts[span.ends[dropped] - start] += self._num_positives[self._local(tile.rows)][dropped]
        return counts

    def _tighten(self, tile: Tile, span: _Range) -> _Range:
        """Drops thresholds whose positive cannot be among the R nearest, by the tile's own negatives.

        A binary search with O(log R) comparisons of the tile.
        """
        sizes, num_positives = span.ends - span.begins, self._num_positives[self._local(tile.rows)]
        least = np.minimum(1, sizes)
        while (least < sizes).any():
            middle = (least + sizes + 1) // 2
            nearer = tile.negatives_at_least(self._score(span, span.begins + middle - 1) + tile.error)
            dropped = (middle > least) & (middle + count_rows(nearer) > num_positives)
            sizes = np.where(dropped, middle - 1, sizes)
            least = np.where(dropped, least, middle)
        return _Range(span.begins, span.begins + sizes)
