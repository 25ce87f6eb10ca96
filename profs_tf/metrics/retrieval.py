"""Image retrieval: Recall@K, MAP@R and R-precision.

Shapes: Q queries, N gallery images, D embedding dimension, R positives of a query.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Optional, Union

import numpy as np

from profs_tf.metrics import arguments as inputs
from profs_tf.metrics.bootstrap import Interval, class_bootstrap
from profs_tf.metrics.exact.ranking import rank_positives
from profs_tf.utils.array_types import Array, Labels


@dataclasses.dataclass(frozen=True, eq=False)
class RetrievalResult:
    """The ranks of each query's positives. Fractions are in [0, 1].

    Attributes:
        ranks: int64 `[Q]`, the rank of the nearest positive, 1 at best; 0 if the query was left out because
            the gallery has no other image of its class.
        labels: `[Q]`, the queries' labels.
        num_candidates: Gallery images each query was compared with, except itself; the largest K.
        average_precision: float64 `[Q]`, average precision at R (0 if left out), or None if not asked for.
        precision: float64 `[Q]`, R-precision (0 if left out), or None if not asked for.
    """

    ranks: np.ndarray
    labels: np.ndarray
    num_candidates: int
    average_precision: Optional[np.ndarray] = None
    precision: Optional[np.ndarray] = None

    @property
    def counted(self) -> np.ndarray:
        """Bool `[Q]`, false for queries that were left out."""
        return self.ranks > 0

    @property
    def num_left_out(self) -> int:
        """The number of queries left out because their class has no other image in the gallery."""
        return int((self.ranks == 0).sum())

    def hits_at(self, k: int) -> np.ndarray:
        """Bool `[Q]`: a positive is among the K nearest images. False for queries that were left out."""
        (k,) = inputs.check_ks(k, self.num_candidates)
        return self.counted & (self.ranks <= k)

    def recall_at(self, ks: Union[int, Iterable[int]]) -> dict[int, float]:
        """Recall@K as `{k: fraction}` over the queries that were not left out."""
        ks = inputs.check_ks(ks, self.num_candidates)
        ranks = self.ranks[self.counted]
        return {k: float((ranks <= k).mean()) for k in ks}

    def class_recall_at(self, k: int) -> dict[Union[int, float, str], float]:
        """Recall@K of each class as `{label: fraction}`, without classes that were left out."""
        hits, counted = self.hits_at(k), self.counted
        classes, of = np.unique(self.labels[counted], return_inverse=True)
        recall = np.bincount(of, weights=hits[counted]) / np.bincount(of)
        return dict(zip(classes.tolist(), recall.tolist()))

    def recall_interval_at(
        self, k: int, *, confidence: float = 0.95, num_resamples: int = 1000, seed: int = 0
    ) -> Interval:
        """Confidence interval of Recall@K by resampling classes; arguments as for `class_bootstrap`."""
        return class_bootstrap(
            self.hits_at(k)[self.counted],
            self.labels[self.counted],
            confidence=confidence,
            num_resamples=num_resamples,
            seed=seed,
        )

    @property
    def mean_reciprocal_rank(self) -> float:
        """Mean of 1 / rank of the nearest positive."""
        return float((1.0 / self.ranks[self.counted]).mean())

    @property
    def map_at_r(self) -> Optional[float]:
        """MAP@R (Musgrave, Belongie and Lim 2020, section 3.2), or None if not asked for."""
        return None if self.average_precision is None else float(self.average_precision[self.counted].mean())

    @property
    def r_precision(self) -> Optional[float]:
        """R-precision (Musgrave, Belongie and Lim 2020, section 3.2), or None if not asked for."""
        return None if self.precision is None else float(self.precision[self.counted].mean())


def recall_at_k(
    embeddings: Array,
    labels: Labels,
    ks: Union[int, Iterable[int]] = (1, 2, 4, 8),
    *,
    gallery_embeddings: Optional[Array] = None,
    gallery_labels: Optional[Labels] = None,
    distance: str = "euclidean",
    backend: str = "auto",
    progress: bool = False,
) -> dict[int, float]:
    """Recall@K (paper, section 5.1): the fraction of queries with a positive among the K nearest images.

    Args:
        embeddings: Float `[Q, D]`, NumPy or TensorFlow.
        labels: `[Q]`, integers or strings.
        ks: The values of K.
        gallery_embeddings: Float `[N, D]`, the gallery. None: `embeddings` itself.
        gallery_labels: `[N]`, its labels.
        distance: As for `evaluate_retrieval`, which defines what is counted.
        backend: As for `evaluate_retrieval`.
        progress: As for `evaluate_retrieval`.

    Returns:
        `{k: fraction in [0, 1]}`. Time and memory as `evaluate_retrieval`, for any values of K.

    Raises:
        ValueError: As `evaluate_retrieval`, or if a K is not an integer in [1, number of candidates].
    """
    embeddings = inputs.check_embeddings(embeddings)
    if gallery_embeddings is not None:
        gallery_embeddings = inputs.check_embeddings(gallery_embeddings, "gallery_embeddings")
    ks = inputs.check_ks(ks, len(embeddings) - 1 if gallery_embeddings is None else len(gallery_embeddings))
    result = evaluate_retrieval(
        embeddings,
        labels,
        gallery_embeddings=gallery_embeddings,
        gallery_labels=gallery_labels,
        distance=distance,
        backend=backend,
        progress=progress,
    )
    return result.recall_at(ks)


def evaluate_retrieval(
    embeddings: Array,
    labels: Labels,
    *,
    gallery_embeddings: Optional[Array] = None,
    gallery_labels: Optional[Labels] = None,
    distance: str = "euclidean",
    with_map_at_r: bool = False,
    backend: str = "auto",
    progress: bool = False,
) -> RetrievalResult:
    """Ranks the images nearest to each query, in its own set or in a gallery.

    In its own set, a query is excluded by its index: an exact duplicate of it counts like any other image.
    Queries whose class has no other image are left out and counted. Ties rank the negative first: a model
    whose embeddings are all equal scores near 0.

    Ranks are exact: float32 products decide beyond their error bound, and float64 the rest. What counts as a
    tie is defined in `metrics/exact/ties.py`.

    Args:
        embeddings: Float `[Q, D]`, NumPy or TensorFlow.
        labels: `[Q]`, integers or strings.
        gallery_embeddings: Float `[N, D]`, the gallery. None: `embeddings` itself.
        gallery_labels: `[N]`, its labels.
        distance: "euclidean" or "cosine".
        with_map_at_r: Whether to compute MAP@R and R-precision too.
        backend: Selects the matmul backend: "numpy", "tensorflow" (on a GPU if there is one) or "auto",
            TensorFlow for large inputs. Results are the same.
        progress: Show progress on standard error.

    Returns:
        A `RetrievalResult`. O(Q N D) time, half of it without a gallery; about 4 (Q + N) D bytes of memory
        above the embeddings (8 N D without a gallery), and some 100 MB per thread.

    Raises:
        ValueError: If embeddings are not finite or not float `[N, D]`, lengths or D differ, an embedding is
            all-zero with the cosine distance, `distance` or `backend` is unknown, or no query has a positive.
    """
    embeddings, labels, gallery, gallery_labels = _check(
        embeddings, labels, gallery_embeddings, gallery_labels, distance
    )
    classes, gallery_classes = inputs.class_numbers(labels, gallery_labels)
    found = np.isin(classes, gallery_classes) if gallery is not None else np.bincount(classes) > 1
    num_images = len(embeddings if gallery is None else gallery)
    if not found.any():
        raise ValueError(
            "`labels` must hold at least one class with another image in the gallery, got none: "
            f"{len(embeddings)} queries, {num_images} gallery images."
        )
    ranks = rank_positives(
        embeddings,
        classes,
        gallery,
        gallery_classes,
        distance=distance,
        with_precisions=with_map_at_r,
        backend=backend,
        progress=progress,
    )
    return RetrievalResult(
        ranks.first, labels, num_images - (gallery is None), ranks.average_precision, ranks.r_precision
    )


def _check(
    embeddings: Array,
    labels: Labels,
    gallery_embeddings: Optional[Array],
    gallery_labels: Optional[Labels],
    distance: str,
) -> tuple[np.ndarray, np.ndarray, Optional[np.ndarray], Optional[np.ndarray]]:
    """Returns embeddings and labels of the queries and of the gallery, None twice if it is their own set."""
    if (gallery_embeddings is None) != (gallery_labels is None):
        raise ValueError("`gallery_embeddings` and `gallery_labels` must be given together, got one of them.")
    embeddings = inputs.check_embeddings(embeddings)
    labels = inputs.check_labels(labels, len(embeddings))
    if distance == "cosine":
        inputs.check_directions(embeddings)
    if gallery_embeddings is None or gallery_labels is None:
        return embeddings, labels, None, None
    gallery = inputs.check_embeddings(gallery_embeddings, "gallery_embeddings")
    gallery_labels = inputs.check_labels(gallery_labels, len(gallery), "gallery_labels", "gallery_embeddings")
    if gallery.shape[1] != embeddings.shape[1]:
        raise ValueError(
            "`gallery_embeddings` must have the dimension of `embeddings`, "
            f"got {gallery.shape[1]} and {embeddings.shape[1]}."
        )
    if distance == "cosine":
        inputs.check_directions(gallery, "gallery_embeddings")
    return embeddings, labels, gallery, gallery_labels
