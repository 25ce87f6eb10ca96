"""Counts the wrong images that are at least as near to a query as its right images.

Float32 scores decide all but the few images that are within the error bound of a threshold; float64 decides
those. So the counts are those of float64, at the cost of float32.

Shapes: r queries and c gallery images of a tile, R right images of a query, T thresholds of all queries.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from profs_tf.metrics.exact.class_sorted import Side, score_error
from profs_tf.metrics.exact.positives import Thresholds
from profs_tf.metrics.exact.tile import Tile, count_rows, exact_scores, list_places

# Up to this share of a tile, images are listed one by one; above, whole rows are counted or computed anew.
_FEW = 1 / 64

# Rows of a tile that are counted together.
_ROWS = 256


@dataclasses.dataclass(frozen=True)
class _Range:
    """The thresholds of some queries: places [begins, ends), int64 `[r]` each."""

    begins: np.ndarray
    ends: np.ndarray

    def part(self, rows: slice) -> _Range:
        return _Range(self.begins[rows], self.ends[rows])


class WrongCounter:
    """Counts, for each threshold, the wrong images first reached by it.

    An image that is as near as the third right image but not as the second adds one at the third threshold:
    the sum of a query's first j counts is the number of wrong images at least as near as its j-th right
    image.

    Beyond the first, only those thresholds matter whose right image may still be among the R nearest. The
    others are dropped as the counts grow, and their counts stay unfinished.
    """

    def __init__(
        self, queries: Side, gallery: Side, thresholds: Thresholds, num_right: np.ndarray, offset: int = 0
    ) -> None:
        """Starts at zero.

        Args:
            queries: The queries.
            gallery: What they search.
            thresholds: Of the queries at positions `offset` and after.
            num_right: int64, R of the same queries.
            offset: Position of the first query counted for.
        """
        self._queries, self._gallery, self._thresholds = queries, gallery, thresholds
        self._num_right, self._offset = num_right, offset
        self._ends = thresholds.starts[1:].copy()
        self._class_begins, self._class_ends = gallery.class_range(queries.classes)
        self._counts = np.zeros(len(thresholds.scores), np.int64)

    def nothing_wrong(self, rows: slice, columns: slice) -> bool:
        """Whether all gallery images at `columns` are of the class of every query at `rows`. O(r)."""
        within = self._class_begins[rows].max() <= columns.start
        return bool(within and self._class_ends[rows].min() >= columns.stop)

    def count(self, scores: np.ndarray, rows: slice, columns: slice) -> np.ndarray:
        """Counts in float32 scores `[r, c]`, for `add` to keep. May be called in several threads at once.

        Returns:
            int64, one count for each threshold of the queries at `rows`.
        """
        error = score_error(self._queries, self._gallery, rows, columns)
        begins, ends = (edges[rows] - columns.start for edges in (self._class_begins, self._class_ends))
        tile = Tile(scores, rows, columns, error, begins, ends)
        local = self._local(rows)
        # A copy: other threads' results may drop thresholds meanwhile.
        span = _Range(self._thresholds.starts[local], self._ends[local].copy())
        listed = tile.list_wrong_at_least(
            self._score(span, span.ends - 1) - tile.error, int(_FEW * scores.size)
        )
        if listed is not None:
            return self._count_listed(tile, *listed, span)
        blocks = [slice(first, min(first + _ROWS, len(scores))) for first in range(0, len(scores), _ROWS)]
        return np.concatenate([self._count_rows(tile.part(block), span.part(block)) for block in blocks])

    def add(self, rows: slice, counts: np.ndarray) -> None:
        """Keeps what `count` found for the queries at `rows`, and drops thresholds out of reach."""
        local = self._local(rows)
        starts = self._thresholds.starts[local.start : local.stop + 1]
        self._counts[starts[0] : starts[-1]] += counts
        if len(counts) < len(starts):
            return  # At most one threshold a query, which is never dropped.
        query, ranks = self._ranks(local)
        within = np.bincount(query, ranks <= self._num_right[local][query], len(starts) - 1).astype(np.int64)
        kept = np.maximum(within, np.minimum(1, np.diff(starts)))
        self._ends[local] = np.minimum(self._ends[local], starts[:-1] + kept)

    def ranks(self) -> tuple[np.ndarray, np.ndarray]:
        """The query (counted from `offset`) and the rank of each threshold's right image, int64 `[T]` each.

        The first of a query is exact, and so are all up to R; the others are above R and may be too small.
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
        place = np.arange(len(query))
        return query, place - first + 1 + total[place + 1] - total[first]

    def _score(self, span: _Range, places: np.ndarray) -> np.ndarray:
        """Scores of thresholds, one a query, float64 `[r]`; inf for queries without a right image."""
        scores = self._thresholds.scores[np.minimum(places, len(self._thresholds.scores) - 1)]
        return np.where(span.begins < span.ends, scores, np.inf)

    def _count_listed(self, tile: Tile, rows: np.ndarray, columns: np.ndarray, span: _Range) -> np.ndarray:
        """Counts the images at some places of the tile (int64 `[n]` each), one by one."""
        scores, error = tile.scores[rows, columns].astype(np.float64), tile.error[rows]
        begins, ends = span.begins[rows], span.ends[rows]
        places = self._thresholds.first_at_most(begins, ends, scores + error)
        latest = self._thresholds.first_at_most(places, ends, scores - error)
        unclear = np.flatnonzero(places < latest)
        if len(unclear):
            exact = self._exact_scores(tile, rows[unclear], columns[unclear])
            places[unclear] = self._thresholds.first_at_most(places[unclear], latest[unclear], exact)
        local = self._local(tile.rows)
        first, last = self._thresholds.starts[[local.start, local.stop]]
        return np.bincount(places[places < ends] - first, minlength=last - first)

    def _exact_scores(self, tile: Tile, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        if len(rows) > _FEW * tile.scores.size:
            return tile.exact(self._queries, self._gallery).scores[rows, columns]
        rows, columns = rows + tile.rows.start, columns + tile.columns.start
        return exact_scores(self._queries, self._gallery, rows, columns)

    def _count_rows(self, tile: Tile, span: _Range) -> np.ndarray:
        """Counts a tile's images: those that reach the first threshold by rows, the others one by one."""
        given, span = span, self._tighten(tile, span)
        first, last = self._score(span, span.begins), self._score(span, span.ends - 1)
        sure = tile.wrong_at_least(first + tile.error)
        others = np.greater(tile.wrong_at_least(first - tile.error), sure)
        if np.count_nonzero(others) > _FEW * sure.size:
            tile = tile.exact(self._queries, self._gallery)
            sure = tile.wrong_at_least(first)
            others = np.zeros_like(sure)
        if (last < first).any():
            others = np.greater(tile.wrong_at_least(last - tile.error), sure)
        counts = self._count_listed(tile, *list_places(others), span)
        counted = np.flatnonzero(span.begins < span.ends)
        start = self._thresholds.starts[self._local(tile.rows).start]
        counts[span.begins[counted] - start] += count_rows(sure)[counted]
        # What reaches a dropped threshold was not counted; R more leave its rank above R.
        dropped = np.flatnonzero(span.ends < given.ends)
        counts[span.ends[dropped] - start] += self._num_right[self._local(tile.rows)][dropped]
        return counts

    def _tighten(self, tile: Tile, span: _Range) -> _Range:
        """Drops thresholds whose right image is not among the R nearest, as the tile's own images show.

        By halving: O(log R) comparisons of the tile.
        """
        sizes, num_right = span.ends - span.begins, self._num_right[self._local(tile.rows)]
        least = np.minimum(1, sizes)
        while (least < sizes).any():
            middle = (least + sizes + 1) // 2
            nearer = tile.wrong_at_least(self._score(span, span.begins + middle - 1) + tile.error)
            dropped = (middle > least) & (middle + count_rows(nearer) > num_right)
            sizes = np.where(dropped, middle - 1, sizes)
            least = np.where(dropped, least, middle)
        return _Range(span.begins, span.begins + sizes)
