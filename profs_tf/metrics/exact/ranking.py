"""Ranks of positives among all gallery images: the one entrance to the engine.

Shapes: Q queries, N gallery images, D embedding dimension, R positives of a query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Optional

import numpy as np

from profs_tf.metrics.exact.embeddings import EmbeddingSet, fit_centering, mirrored
from profs_tf.metrics.exact.matmul import Prepared, Product, open_product
from profs_tf.metrics.exact.negatives import NegativeCounter
from profs_tf.metrics.exact.positives import Thresholds, all_positives, count_positives, nearest_positives
from profs_tf.utils.progress import Progress
from profs_tf.utils.threads import in_threads

# Rows and columns of a tile of scores.
_TILE = 2048

# Thresholds that are counted for in one pass over the gallery. More take several passes.
_THRESHOLDS = 1 << 24


class PositiveRanks(NamedTuple):
    """What `rank_positives` returns for each query.

    Attributes:
        first: int64 `[Q]`, the rank of the nearest positive, from 1 on; 0 if the query has no positive.
        average_precision: float64 `[Q]`, average precision at R, or None if not asked for.
        r_precision: float64 `[Q]`, R-precision, or None if not asked for.
    """

    first: np.ndarray
    average_precision: Optional[np.ndarray] = None
    r_precision: Optional[np.ndarray] = None


def rank_positives(
    embeddings: np.ndarray,
    classes: np.ndarray,
    gallery: Optional[np.ndarray] = None,
    gallery_classes: Optional[np.ndarray] = None,
    *,
    distance: str = "euclidean",
    with_precisions: bool = False,
    backend: str = "auto",
    progress: bool = False,
) -> PositiveRanks:
    """Ranks each query's positives by distance, ties by the rule of `ties.py`: negatives first.

    Example: four images at 0, 1, 3 and 3 on a line, of the classes a, a, b and a, each searching for the
    others:

        query     neighbors       positives at ranks   first   average precision at R   R-precision
        0, a      1a 3b 3a        1, 3                 1       (1/1) / 2                1/2
        1, a      0a 3b 3a        1, 3                 1       (1/1) / 2                1/2
        3, b      3a 1a 0a        none                 0       0                        0
        3, a      3b 1a 0a        2, 3                 2       (1/2) / 2                1/2

    No neighbors are sorted for that. Query 0 has two thresholds, the scores (minus half the squared
    distances) of its positives: -1/2 and -9/2. One negative, 3b, reaches the second but not the first, so the
    counts are 0 and 1, and the j-th positive has rank j plus the sum of the first j counts: 1 and 3.
    Thresholds come from products within the classes (`positives.py`), counts from products of all queries and
    gallery images in tiles (`negatives.py`).

    Args:
        embeddings: Float `[Q, D]`, finite; with the cosine distance not all-zero.
        classes: int64 `[Q]`.
        gallery: Float `[N, D]` likewise. None: `embeddings`, where a query is not among its own neighbors.
        gallery_classes: int64 `[N]`.
        distance: "euclidean" or "cosine".
        with_precisions: Whether to compute average precision and R-precision.
        backend: As for `evaluate_retrieval`.
        progress: Show progress on standard error.

    Returns:
        `PositiveRanks`. Average precision at R is the mean over the R nearest images of the precision up to
        that image if it is a positive and of 0 otherwise; R-precision is the fraction of positives among them
        (Musgrave, Belongie and Lim 2020, section 3.2).
    """
    if gallery is None or gallery_classes is None:
        queries = searched = EmbeddingSet(embeddings, classes, fit_centering(distance, embeddings))
    else:
        centering = fit_centering(distance, gallery, embeddings)
        queries = EmbeddingSet(embeddings, classes, centering)
        searched = EmbeddingSet(gallery, gallery_classes, centering)
    rank = _all_ranks if with_precisions else _first_ranks
    by_position = rank(queries, searched, backend, progress)
    by_image = [np.empty_like(values) for values in by_position]
    for values, sorted_values in zip(by_image, by_position):
        values[queries.order] = sorted_values
    return PositiveRanks(*by_image)


def _first_ranks(
    queries: EmbeddingSet, gallery: EmbeddingSet, backend: str, progress: bool
) -> tuple[np.ndarray, ...]:
    """The rank of each query's nearest positive, int64 `[Q]` by position."""
    own_set = queries is gallery
    thresholds = nearest_positives(queries, gallery, own_set)
    num_positives = count_positives(queries, gallery, own_set)
    everywhere = slice(0, len(queries))
    query, ranks = _count(queries, gallery, thresholds, num_positives, everywhere, backend, progress)
    first = np.zeros(len(queries), np.int64)
    first[query] = ranks
    return (first,)


def _all_ranks(
    queries: EmbeddingSet, gallery: EmbeddingSet, backend: str, progress: bool
) -> tuple[np.ndarray, ...]:
    """First ranks, average precisions and R-precisions, int64 and twice float64 `[Q]` by position."""
    own_set = queries is gallery
    first, average, precision = (np.zeros(len(queries), kind) for kind in (np.int64, float, float))
    all_num_positives = count_positives(queries, gallery, own_set)
    for positions in _groups(all_num_positives):
        thresholds = all_positives(queries, gallery, own_set, positions)
        num_positives = all_num_positives[positions]
        query, ranks = _count(queries, gallery, thresholds, num_positives, positions, backend, progress)
        # 1 for each query's nearest positive, 2 for the next, and so on.
        number = np.arange(len(query)) - thresholds.starts[query] + 1
        first[positions.start + query[number == 1]] = ranks[number == 1]
        within = ranks <= num_positives[query]
        size = len(num_positives)
        share = within / num_positives[query]
        precision[positions] = np.bincount(query, share, size)
        average[positions] = np.bincount(query, share * number / ranks, size)
    return first, average, precision


def _groups(num_positives: np.ndarray) -> Iterator[slice]:
    """Splits queries, at multiples of the tile, into groups with a bounded number of thresholds each."""
    begin, total = 0, 0
    for start in range(0, len(num_positives), _TILE):
        added = int(num_positives[start : start + _TILE].sum())
        if start > begin and total + added > _THRESHOLDS:
            yield slice(begin, start)
            begin, total = start, 0
        total += added
    yield slice(begin, len(num_positives))


def _count(
    queries: EmbeddingSet,
    gallery: EmbeddingSet,
    thresholds: Thresholds,
    num_positives: np.ndarray,
    positions: slice,
    backend: str,
    progress: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Ranks as `NegativeCounter.ranks`, for the queries at `positions`."""
    counter = NegativeCounter(queries, gallery, thresholds, num_positives, positions.start)
    if not len(thresholds.scores):
        return counter.ranks()
    both_ways = queries is gallery and positions == slice(0, len(queries))
    rows, columns = _slices(positions), _slices(slice(0, len(gallery)))
    pairs = [(i, j) for i in range(len(rows)) for j in range(i if both_ways else 0, len(columns))]
    bar = Progress("search", len(pairs), progress)
    operations = 2.0 * len(pairs) * _TILE**2 * queries.width
    with bar, open_product(backend, operations) as product:
        left, right = _factors(product, queries, rows, right=both_ways)
        if not both_ways:
            _, right = _factors(product, gallery, columns, left=False)

        def count(pair: tuple[int, int]) -> list[tuple[slice, np.ndarray]]:
            i, j = pair
            if counter.has_no_negatives(rows[i], columns[j]):
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
    return counter.ranks()


def _factors(
    product: Product, embeddings: EmbeddingSet, blocks: list[slice], left: bool = True, right: bool = True
) -> tuple[Sequence[Prepared], Sequence[Prepared]]:
    """Blocks as left factors of products and as right factors, each if asked for."""

    def prepare(block: slice) -> tuple:
        factor = embeddings.float32_block(block)
        return left and product.prepare(factor), right and product.prepare(mirrored(factor))

    lefts, rights = zip(*in_threads(prepare, blocks))
    return lefts, rights


def _slices(positions: slice) -> list[slice]:
    starts = range(positions.start, positions.stop, _TILE)
    return [slice(start, min(start + _TILE, positions.stop)) for start in starts]
