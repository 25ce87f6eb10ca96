"""Ranks of right images, from all scores of a set with itself or with a gallery, tile after tile.

Shapes: Q queries, N gallery images, D embedding dimension, R right images of a query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from profs_tf.metrics.exact.class_sorted import Side, mirrored
from profs_tf.metrics.exact.matmul import Prepared, Product, open_product
from profs_tf.metrics.exact.negatives import WrongCounter
from profs_tf.metrics.exact.positives import Thresholds, all_right, count_right, nearest_right
from profs_tf.utils.progress import Progress
from profs_tf.utils.threads import in_threads

# Rows and columns of a tile of scores.
_TILE = 2048

# Thresholds that are counted for in one search of the gallery. More take several searches.
_THRESHOLDS = 1 << 24


def first_right_ranks(
    queries: Side, gallery: Side, *, backend: str = "auto", progress: bool = False
) -> np.ndarray:
    """Rank of each query's nearest right image, int64 `[Q]` by position; 0 where it has none.

    Args:
        queries: The queries.
        gallery: What they search; `queries` itself for a set that is searched in itself.
        backend: As for `evaluate_retrieval`.
        progress: Show progress on standard error.
    """
    own_set = queries is gallery
    thresholds = nearest_right(queries, gallery, own_set)
    num_right = count_right(queries, gallery, own_set)
    query, ranks = _count(queries, gallery, thresholds, num_right, slice(0, len(queries)), backend, progress)
    result = np.zeros(len(queries), np.int64)
    result[query] = ranks
    return result


def precisions_at_r(
    queries: Side, gallery: Side, *, backend: str = "auto", progress: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each query's rank of its nearest right image, average precision at R and R-precision.

    Average precision at R is the mean over the R nearest images of the precision up to that image where it is
    right, and of 0 where it is not (Musgrave, Belongie and Lim 2020, section 3.2).

    Args:
        queries: The queries.
        gallery: What they search; `queries` itself for a set that is searched in itself.
        backend: As for `evaluate_retrieval`.
        progress: Show progress on standard error.

    Returns:
        int64, float64 and float64 `[Q]`, all by position; 0 where a query has no right image.
    """
    own_set = queries is gallery
    first, average, precision = (np.zeros(len(queries), kind) for kind in (np.int64, float, float))
    all_num_right = count_right(queries, gallery, own_set)
    for positions in _groups(all_num_right):
        thresholds = all_right(queries, gallery, own_set, positions)
        num_right = all_num_right[positions]
        query, ranks = _count(queries, gallery, thresholds, num_right, positions, backend, progress)
        place = np.arange(len(query)) - thresholds.starts[query] + 1
        first[positions.start + query[place == 1]] = ranks[place == 1]
        within = ranks <= num_right[query]
        size = len(num_right)
        share = within / num_right[query]
        precision[positions] = np.bincount(query, share, size)
        average[positions] = np.bincount(query, share * place / ranks, size)
    return first, average, precision


def _groups(num_right: np.ndarray) -> Iterator[slice]:
    """Splits queries, at multiples of the tile, into groups with a bounded number of thresholds each."""
    begin, total = 0, 0
    for start in range(0, len(num_right), _TILE):
        added = int(num_right[start : start + _TILE].sum())
        if start > begin and total + added > _THRESHOLDS:
            yield slice(begin, start)
            begin, total = start, 0
        total += added
    yield slice(begin, len(num_right))


def _count(
    queries: Side,
    gallery: Side,
    thresholds: Thresholds,
    num_right: np.ndarray,
    positions: slice,
    backend: str,
    progress: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Ranks as `WrongCounter.ranks`, for the queries at `positions`."""
    counter = WrongCounter(queries, gallery, thresholds, num_right, positions.start)
    if not len(thresholds.scores):
        return counter.ranks()
    both_ways = queries is gallery and positions == slice(0, len(queries))
    rows, columns = _slices(positions), _slices(slice(0, len(gallery)))
    pairs = [(i, j) for i in range(len(rows)) for j in range(i if both_ways else 0, len(columns))]
    bar = Progress("search", len(pairs), progress)
    operations = 2.0 * len(pairs) * _TILE**2 * queries.width
    with open_product(backend, operations) as product:
        left, right = _factors(product, queries, rows, right=both_ways)
        if not both_ways:
            _, right = _factors(product, gallery, columns, left=False)

        def count(pair: tuple[int, int]) -> list[tuple[slice, np.ndarray]]:
            i, j = pair
            if counter.nothing_wrong(rows[i], columns[j]):
                return []
            scores = product(left[i], right[j])
            found = [(rows[i], counter.count(scores, rows[i], columns[j]))]
            if both_ways and i != j:
                found.append((columns[j], counter.count(scores.T, columns[j], rows[i])))
            return found

        for found in in_threads(count, pairs):
            for block, counts in found:
                counter.add(block, counts)
            bar.advance()
    bar.finish()
    return counter.ranks()


def _factors(
    product: Product, side: Side, blocks: list[slice], left: bool = True, right: bool = True
) -> tuple[Sequence[Prepared], Sequence[Prepared]]:
    """Blocks as left factors of products and as right ones, where asked for."""

    def prepare(block: slice) -> tuple:
        factor = side.float32_block(block)
        return left and product.prepare(factor), right and product.prepare(mirrored(factor))

    lefts, rights = zip(*in_threads(prepare, blocks))
    return lefts, rights


def _slices(positions: slice) -> list[slice]:
    starts = range(positions.start, positions.stop, _TILE)
    return [slice(start, min(start + _TILE, positions.stop)) for start in starts]
