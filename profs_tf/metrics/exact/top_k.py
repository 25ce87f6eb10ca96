"""The k nearest gallery images of a block of queries, from tiles of scores.

Float32 scores select the candidates: all that may be among the k best within the error bound. Float64
differences decide among these.

Shapes: r queries and c gallery images of a tile, n pairs of them, N gallery images.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Optional

import numpy as np

from profs_tf.metrics.exact.embeddings import Centering, EmbeddingSet
from profs_tf.metrics.exact.ties import raise_negatives, rank_order
from profs_tf.metrics.exact.tile import nonzero_pairs, pair_scores

# From so many times k candidates in a tile on, the k best of each row are found first, to narrow them down.
_MANY = 2


class PairScores:
    """The true scores of pairs, by which neighbors are ranked.

    With the classes of both, scores of negatives are raised by the rule of `ties.py`.
    """

    def __init__(
        self,
        queries: np.ndarray,
        gallery: np.ndarray,
        centering: Centering,
        classes: Optional[tuple[np.ndarray, np.ndarray]] = None,
    ) -> None:
        """Keeps what scores are computed from.

        Args:
            queries: Float `[Q, D]`.
            gallery: Float `[N, D]`.
            centering: Of both.
            classes: int64 `[Q]` and `[N]`, or None: ties keep the gallery's order.
        """
        self._queries, self._gallery, self._classes = queries, gallery, classes
        # Not centered: the difference of two float32 values then has no rounding, so that ties are exact.
        self._scaling = dataclasses.replace(centering, center=np.zeros_like(centering.center))

    def distances(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Minus half the squared distances of queries and gallery images `[n]`, float64 `[n]`."""
        query_rows = functools.partial(self._scaling.rows, self._queries)
        gallery_rows = functools.partial(self._scaling.rows, self._gallery)
        return pair_scores(query_rows, gallery_rows, rows, columns)

    def ranked(
        self, queries: EmbeddingSet, gallery: EmbeddingSet, rows: np.ndarray, columns: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Scores with those of negatives raised, float64 `[n]`, and which pairs are positive, bool `[n]`."""
        scores = self.distances(rows, columns)
        if self._classes is None:
            return scores, np.zeros(len(rows), bool)
        is_positive = self._classes[0][rows] == self._classes[1][columns]
        raised = raise_negatives(scores, queries.tie_widths[rows], gallery.tie_widths[columns])
        return np.where(is_positive, scores, raised), is_positive


class TopK:
    """The k best gallery images so far of each query of a block.

    Attributes:
        scores: float64 `[r, k]`, descending; minus infinity where there is none yet.
        is_positive: bool `[r, k]`.
        indices: int64 `[r, k]`, the gallery images; N where there is none yet.
    """

    def __init__(self, num_queries: int, k: int, num_images: int) -> None:
        """Starts with none."""
        self.scores = np.full([num_queries, k], -np.inf)
        self.is_positive = np.zeros([num_queries, k], bool)
        self.indices = np.full([num_queries, k], num_images)

    @property
    def least(self) -> np.ndarray:
        """The score that another image must reach, float64 `[r]`. It only grows, so an old value is safe."""
        return self.scores[:, -1]

    def merge(self, other: TopK) -> None:
        """Keeps the best of its images and those of another block of the gallery."""
        k = self.scores.shape[1]
        both = [np.concatenate(pair, axis=1) for pair in zip(self._arrays(), other._arrays())]
        order = rank_order(*both)[:, :k]
        self.scores, self.is_positive, self.indices = (
            np.take_along_axis(values, order, axis=1) for values in both
        )

    def fill(
        self, rows: np.ndarray, scores: np.ndarray, is_positive: np.ndarray, indices: np.ndarray
    ) -> None:
        """Takes the best of pairs `[n]`; must have none before."""
        order = rank_order(scores, is_positive, indices)
        order = order[np.argsort(rows[order], kind="stable")]
        rows = rows[order]
        position = np.arange(len(rows)) - np.searchsorted(rows, rows, "left")
        kept = position < self.scores.shape[1]
        at, order = (rows[kept], position[kept]), order[kept]
        for values, found in zip(self._arrays(), (scores, is_positive, indices)):
            values[at] = found[order]

    def _arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.scores, self.is_positive, self.indices


def list_candidates(
    scores: np.ndarray, error: np.ndarray, k: int, least: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns, int64 `[n]` each, of all images that may be among the k best of their row.

    Args:
        scores: Float32 `[r, c]`.
        error: float64 `[r]`, a bound of their error.
        k: How many are sought.
        least: float64 `[r]`, what true scores must reach.
    """
    reached = scores >= _rounded_down(least - error)[:, None]
    if scores.shape[1] > k and np.count_nonzero(reached) > _MANY * k * len(scores):
        # The true score of the k best is within one error of theirs, and so is that of any other image.
        kth = np.partition(scores, scores.shape[1] - k, axis=1)[:, scores.shape[1] - k]
        reached &= scores >= _rounded_down(kth - 2.0 * error)[:, None]
    return nonzero_pairs(reached)


def _rounded_down(bounds: np.ndarray) -> np.ndarray:
    return np.nextafter(bounds.astype(np.float32), np.float32(-np.inf))
