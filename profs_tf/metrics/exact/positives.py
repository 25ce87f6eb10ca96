"""Scores of queries with their positives: the thresholds that negatives are counted against.

Shapes: Q queries, N gallery images, R positives of a query, T thresholds of all queries together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Optional

import numpy as np

from profs_tf.metrics.exact.embeddings import EmbeddingSet
from profs_tf.utils.threads import in_threads

# Rows of small classes that are compared together.
_ROWS = 1024

# Scores of one large class that are computed together.
_BLOCK_ELEMENTS = 1 << 22

# At least so many queries, or converting the positives would take longer than the products.
_LEAST_QUERIES = 256


@dataclasses.dataclass(frozen=True)
class Thresholds:
    """The scores of the positives of all queries, query after query, the nearest first.

    Attributes:
        starts: int64 `[Q + 1]`, the index of each query's first threshold.
        scores: float64 `[T]`.
    """

    starts: np.ndarray
    scores: np.ndarray

    def first_at_most(self, begin: np.ndarray, end: np.ndarray, values: np.ndarray) -> np.ndarray:
        """The first index in [begin, end) whose score is at most the value; `end` if there is none.

        Args:
            begin: int64 `[n]`.
            end: int64 `[n]`.
            values: float64 `[n]`.

        Returns:
            int64 `[n]`. A binary search, O(n log R).
        """
        for _ in range(int((end - begin).max(initial=0)).bit_length()):
            middle = (begin + end) // 2
            reached = self.scores[np.minimum(middle, len(self.scores) - 1)] <= values
            unfinished = begin < end
            begin = np.where(unfinished & ~reached, middle + 1, begin)
            end = np.where(unfinished & reached, middle, end)
        return begin


def count_positives(queries: EmbeddingSet, gallery: EmbeddingSet, own_set: bool) -> np.ndarray:
    """R of each query, int64 `[Q]`: the images of its class in the gallery except itself."""
    begin, end = gallery.class_range(queries.classes)
    return end - begin - own_set


def nearest_positives(queries: EmbeddingSet, gallery: EmbeddingSet, own_set: bool) -> Thresholds:
    """One threshold for each query that has a positive, the nearest.

    O(D times the sum of squared class sizes) time.
    """

    def nearest(block: _ClassBlock) -> tuple[np.ndarray, np.ndarray]:
        positions, scores = block.scores(queries, gallery, own_set)
        return positions, scores.max(axis=2)

    thresholds = _empty_thresholds(np.minimum(count_positives(queries, gallery, own_set), 1))
    for positions, scores in in_threads(nearest, _class_blocks(queries, gallery, own_set)):
        thresholds.scores[thresholds.starts[positions]] = scores
    return thresholds


def all_positives(
    queries: EmbeddingSet, gallery: EmbeddingSet, own_set: bool, positions: slice
) -> Thresholds:
    """R thresholds for each query at `positions`. Time as `nearest_positives`."""

    def in_order(block: _ClassBlock) -> tuple[np.ndarray, np.ndarray]:
        positions, scores = block.scores(queries, gallery, own_set)
        return positions, -np.sort(-scores, axis=2)[:, :, : scores.shape[2] - own_set]

    thresholds = _empty_thresholds(count_positives(queries, gallery, own_set)[positions])
    blocks = _class_blocks(queries, gallery, own_set, positions)
    for found, scores in in_threads(in_order, blocks):
        indices = thresholds.starts[found - positions.start, None] + np.arange(scores.shape[2])
        thresholds.scores[indices] = scores
    return thresholds


def _empty_thresholds(counts: np.ndarray) -> Thresholds:
    return Thresholds(np.concatenate([[0], np.cumsum(counts)]), np.empty(counts.sum()))


@dataclasses.dataclass(frozen=True)
class _ClassBlock:
    """Some queries of each of c classes, which all have as many queries and as many gallery images.

    Attributes:
        starts: int64 `[c]`, the position of each class's first query.
        begins: int64 `[c]`, the position of its first gallery image.
        num_queries: q.
        num_images: g.
    """

    starts: np.ndarray
    begins: np.ndarray
    num_queries: int
    num_images: int

    def scores(
        self, queries: EmbeddingSet, gallery: EmbeddingSet, own_set: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Positions of queries, int64 `[c, q]`, and scores with images of their class, float64 `[c, q, g]`.

        If the gallery is the queries' own set, a query's score with itself is -inf.
        """
        positions = self.starts[:, None] + np.arange(self.num_queries)
        image_positions = self.begins[:, None] + np.arange(self.num_images)
        images = gallery.rows(image_positions.ravel()).reshape(*image_positions.shape, -1)
        rows = images
        if positions.shape != image_positions.shape or not own_set:
            rows = queries.rows(positions.ravel()).reshape(*positions.shape, -1)
        scores = rows @ images.transpose(0, 2, 1)
        scores -= queries.half_norms[positions][:, :, None]
        scores -= gallery.half_norms[image_positions][:, None]
        np.minimum(scores, 0, out=scores)
        if own_set:
            scores[positions[:, :, None] == image_positions[:, None]] = -np.inf
        return positions, scores


def _class_blocks(
    queries: EmbeddingSet, gallery: EmbeddingSet, own_set: bool, positions: Optional[slice] = None
) -> Iterator[_ClassBlock]:
    """Blocks of all queries (or those at `positions`) that have a positive; many small classes at a time."""
    positions = positions or slice(0, len(queries))
    classes = np.unique(queries.classes[positions])
    starts, ends = (np.clip(edge, positions.start, positions.stop) for edge in queries.class_range(classes))
    begins, stops = gallery.class_range(classes)
    sizes, kinds = np.unique(np.stack([ends - starts, stops - begins], axis=1), axis=0, return_inverse=True)
    for kind, (num_queries, num_images) in enumerate(sizes.tolist()):
        if num_images - own_set < 1:
            continue
        members = np.flatnonzero(kinds.ravel() == kind)
        at_once = max(1, _ROWS // (num_queries + num_images))
        queries_at_once = max(_LEAST_QUERIES, _BLOCK_ELEMENTS // num_images)
        for chosen in np.split(members, range(at_once, len(members), at_once)):
            for first in range(0, num_queries, queries_at_once):
                yield _ClassBlock(
                    starts[chosen] + first,
                    begins[chosen],
                    min(queries_at_once, num_queries - first),
                    num_images,
                )
