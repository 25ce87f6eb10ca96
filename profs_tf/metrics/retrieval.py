"""Image retrieval: Recall@K, MAP@R and R-precision.

Shapes: Q queries, N gallery images, D embedding dimension, R right images of a query.
"""

from __future__ import annotations

import dataclasses
from typing import Optional

import numpy as np

from profs_tf.metrics import inputs

DISTANCES = ("euclidean", "cosine")

# Two squared distances are a tie where they differ by no more than this times the sum of the squared norms.
TIE_TOLERANCE = 1e-12

# Elements of the largest temporary matrix.
_BLOCK_ELEMENTS = 1 << 24


@dataclasses.dataclass(frozen=True)
class RetrievalResult:
    """What a search gave for each query. Fractions are in [0, 1].

    Attributes:
        ranks: int64 `[Q]`, rank of the first right image, 1 at best; 0 where the query was left out because no
            other image of its class is in the gallery.
        labels: `[Q]`, the queries' labels.
        num_candidates: Gallery images each query was compared with, itself not counted; the largest K.
        average_precision: float64 `[Q]`, average precision at R of each query (0 where left out), or None where
            it was not asked for.
        precision: float64 `[Q]`, R-precision of each query (0 where left out), or None likewise.
    """

    ranks: np.ndarray
    labels: np.ndarray
    num_candidates: int
    average_precision: Optional[np.ndarray] = None
    precision: Optional[np.ndarray] = None

    @property
    def counted(self) -> np.ndarray:
        """bool `[Q]`, false where the query was left out."""
        return self.ranks > 0

    @property
    def num_left_out(self) -> int:
        """How many queries were left out: their class has no other image in the gallery."""
        return int((self.ranks == 0).sum())

    def hits_at(self, k: int) -> np.ndarray:
        """bool `[Q]`: a right image is among the K nearest. False where left out."""
        (k,) = inputs.check_ks(k, self.num_candidates)
        return self.counted & (self.ranks <= k)

    def recall_at(self, ks) -> dict:
        """Recall@K as `{k: fraction}` over the queries that were not left out."""
        ks = inputs.check_ks(ks, self.num_candidates)
        ranks = self.ranks[self.counted]
        return {k: float((ranks <= k).mean()) for k in ks}

    def class_recall_at(self, k: int) -> dict:
        """Recall@K of each class as `{label: fraction}`; classes that were left out are not in it."""
        hits, counted = self.hits_at(k), self.counted
        classes, of = np.unique(self.labels[counted], return_inverse=True)
        recall = np.bincount(of, weights=hits[counted]) / np.bincount(of)
        return dict(zip(classes.tolist(), recall.tolist()))

    @property
    def mean_reciprocal_rank(self) -> float:
        """Mean of 1 / rank of the first right image."""
        return float((1.0 / self.ranks[self.counted]).mean())

    @property
    def map_at_r(self) -> Optional[float]:
        """MAP@R (Musgrave, Belongie and Lim 2020, section 3.2), or None where not asked for."""
        return None if self.average_precision is None else float(self.average_precision[self.counted].mean())

    @property
    def r_precision(self) -> Optional[float]:
        """R-precision (Musgrave, Belongie and Lim 2020, section 3.2), or None where not asked for."""
        return None if self.precision is None else float(self.precision[self.counted].mean())


def recall_at_k(embeddings, labels, ks=(1, 2, 4, 8), **search) -> dict:
    """Recall@K (section 4.2 of the paper): the share of queries with a right image among the K nearest.

    Args:
        embeddings: Float `[Q, D]`.
        labels: `[Q]`, integers or strings.
        ks: The values of K.
        **search: As for `evaluate_retrieval`.

    Returns:
        `{k: fraction in [0, 1]}`.

    Raises:
        ValueError: As `evaluate_retrieval`, or a K that is not an integer in [1, number of candidates].
    """
    num_gallery = len(labels) - 1 if search.get("gallery_labels") is None else len(search["gallery_labels"])
    ks = inputs.check_ks(ks, num_gallery)
    return evaluate_retrieval(embeddings, labels, **search).recall_at(ks)


def evaluate_retrieval(
    embeddings,
    labels,
    *,
    gallery_embeddings=None,
    gallery_labels=None,
    distance: str = "euclidean",
    with_map_at_r: bool = False,
) -> RetrievalResult:
    """Searches each embedding's nearest images, in its own set or in a gallery.

    In its own set a query is excluded by its index, so that an exact duplicate of it counts as any other image.
    Queries whose class has no other image are left out and counted. Ties rank the wrong image first: a model
    whose embeddings are all equal scores near 0.

    Args:
        embeddings: Float `[Q, D]`.
        labels: `[Q]`, integers or strings.
        gallery_embeddings: Float `[N, D]`, another set to search in. None: `embeddings` itself.
        gallery_labels: `[N]`, its labels.
        distance: "euclidean" or "cosine".
        with_map_at_r: Also find MAP@R and R-precision.

    Returns:
        A `RetrievalResult`. O(Q N D) time.

    Raises:
        ValueError: Embeddings that are not finite or not float `[N, D]`, lengths or D that differ, unknown
            `distance`, no query with a right image.
    """
    if distance not in DISTANCES:
        raise ValueError(f"`distance` must be one of {', '.join(DISTANCES)}, got {distance!r}.")
    queries = inputs.check_embeddings(embeddings)
    query_labels = inputs.check_labels(labels, len(queries))
    own_set = gallery_embeddings is None
    if own_set != (gallery_labels is None):
        raise ValueError("`gallery_embeddings` and `gallery_labels` must be given together, got one of them.")
    gallery, gallery_classes = queries, None
    if not own_set:
        gallery = inputs.check_embeddings(gallery_embeddings, "gallery_embeddings")
        gallery_classes = inputs.check_labels(
            gallery_labels, len(gallery), "gallery_labels", "gallery_embeddings"
        )
        if gallery.shape[1] != queries.shape[1]:
            raise ValueError(
                f"`gallery_embeddings` must have the dimension of `embeddings`, "
                f"got {gallery.shape[1]} and {queries.shape[1]}."
            )
    query_classes, gallery_classes = inputs.class_numbers(query_labels, gallery_classes)
    ranks = np.zeros(len(queries), np.int64)
    average_precision, precision = np.zeros(len(queries)), np.zeros(len(queries))
    rows = max(1, _BLOCK_ELEMENTS // len(gallery))
    for start in range(0, len(queries), rows):
        block = slice(start, start + rows)
        distances_sq, tolerance = _distances_sq(queries[block], gallery, distance)
        right = query_classes[block, None] == gallery_classes
        wrong = ~right
        if own_set:
            right[np.arange(len(right)), np.arange(len(right)) + start] = False
        best = np.where(right, distances_sq, np.inf).min(axis=1)
        nearer = (wrong & (distances_sq <= best[:, None] + tolerance)).sum(axis=1)
        found = right.any(axis=1)
        ranks[block] = np.where(found, nearer + 1, 0)
        if with_map_at_r:
            for row in np.flatnonzero(found):
                average_precision[start + row], precision[start + row] = _precision_at_r(
                    np.sort(distances_sq[row, right[row]]),
                    np.sort((distances_sq - tolerance)[row, wrong[row]]),
                )
    if not ranks.any():
        raise ValueError("`labels` must hold a query with a right image in the gallery, got none.")
    if not with_map_at_r:
        average_precision = precision = None
    return RetrievalResult(ranks, query_labels, len(gallery) - own_set, average_precision, precision)


def _distances_sq(queries: np.ndarray, gallery: np.ndarray, distance: str) -> tuple:
    """Squared distances `[Q, N]` in float64 and the differences that count as a tie, likewise."""
    queries, gallery = queries.astype(np.float64), gallery.astype(np.float64)
    if distance == "cosine":
        queries = queries / np.linalg.norm(queries, axis=1, keepdims=True)
        gallery = gallery / np.linalg.norm(gallery, axis=1, keepdims=True)
    sums = (queries**2).sum(axis=1)[:, None] + (gallery**2).sum(axis=1)
    return np.maximum(sums - 2 * queries @ gallery.T, 0), TIE_TOLERANCE * sums


def _precision_at_r(right: np.ndarray, wrong: np.ndarray) -> tuple:
    """Average precision at R and R-precision of one query from sorted distances."""
    order = np.arange(1, len(right) + 1)
    ranks = order + np.searchsorted(wrong, right, side="right")
    within = ranks <= len(right)
    return (order / ranks)[within].sum() / len(right), within.sum() / len(right)
