"""Image retrieval: Recall@K, MAP@R and R-precision.

Shapes: Q queries, N gallery images, D embedding dimension, R right images of a query.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Optional, Union

import numpy as np

from profs_tf.metrics import arguments as inputs
from profs_tf.metrics.bootstrap import Interval, class_bootstrap
from profs_tf.metrics.exact.class_sorted import Side
from profs_tf.metrics.exact.coordinates import fit_frame
from profs_tf.metrics.exact.positives import count_right
from profs_tf.metrics.exact.ranking import first_right_ranks, precisions_at_r
from profs_tf.utils.array_types import Array, Labels


@dataclasses.dataclass(frozen=True, eq=False)
class RetrievalResult:
    """What a search gave for each query. Fractions are in [0, 1].

    Attributes:
        ranks: int64 `[Q]`, rank of the first right image, 1 at best; 0 where the query was left out because
            the gallery has no other image of its class.
        labels: `[Q]`, the queries' labels.
        num_candidates: Gallery images each query was compared with, itself not counted; the largest K.
        average_precision: float64 `[Q]`, average precision at R of each query (0 where left out), or None
            where it was not asked for.
        precision: float64 `[Q]`, R-precision of each query (0 where left out), or None likewise.
    """

    ranks: np.ndarray
    labels: np.ndarray
    num_candidates: int
    average_precision: Optional[np.ndarray] = None
    precision: Optional[np.ndarray] = None

    @property
    def counted(self) -> np.ndarray:
        """Bool `[Q]`, false where the query was left out."""
        return self.ranks > 0

    @property
    def num_left_out(self) -> int:
        """How many queries were left out: their class has no other image in the gallery."""
        return int((self.ranks == 0).sum())

    def hits_at(self, k: int) -> np.ndarray:
        """Bool `[Q]`: a right image is among the K nearest. False where left out."""
        (k,) = inputs.check_ks(k, self.num_candidates)
        return self.counted & (self.ranks <= k)

    def recall_at(self, ks: Union[int, Iterable[int]]) -> dict[int, float]:
        """Recall@K as `{k: fraction}` over the queries that were not left out."""
        ks = inputs.check_ks(ks, self.num_candidates)
        ranks = self.ranks[self.counted]
        return {k: float((ranks <= k).mean()) for k in ks}

    def class_recall_at(self, k: int) -> dict[Union[int, float, str], float]:
        """Recall@K of each class as `{label: fraction}`; classes that were left out are not in it."""
        hits, counted = self.hits_at(k), self.counted
        classes, of = np.unique(self.labels[counted], return_inverse=True)
        recall = np.bincount(of, weights=hits[counted]) / np.bincount(of)
        return dict(zip(classes.tolist(), recall.tolist()))

    def recall_interval_at(
        self, k: int, *, confidence: float = 0.95, num_resamples: int = 1000, seed: int = 0
    ) -> Interval:
        """Confidence interval of Recall@K, by drawing classes anew; arguments as of `class_bootstrap`."""
        return class_bootstrap(
            self.hits_at(k)[self.counted],
            self.labels[self.counted],
            confidence=confidence,
            num_resamples=num_resamples,
            seed=seed,
        )

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
    """Recall@K (paper, section 5.1): the share of queries with a right image among the K nearest.

    Args:
        embeddings: Float `[Q, D]`, NumPy or TensorFlow.
        labels: `[Q]`, integers or strings.
        ks: The values of K.
        gallery_embeddings: Float `[N, D]`, another set to search in. None: `embeddings` itself.
        gallery_labels: `[N]`, its labels.
        distance: As for `evaluate_retrieval`, which says what is counted how.
        backend: Likewise.
        progress: Likewise.

    Returns:
        `{k: fraction in [0, 1]}`. Time and memory as `evaluate_retrieval`, whatever the values of K.

    Raises:
        ValueError: As `evaluate_retrieval`, or a K that is not an integer in [1, number of candidates].
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
    """Searches each embedding's nearest images, in its own set or in a gallery.

    In its own set a query is excluded by its index: an exact duplicate of it counts as any other image.
    Queries whose class has no other image are left out and counted. Ties rank the wrong image first: a
    model whose embeddings are all equal scores near 0.

    Ranks are exact: float32 products decide what is beyond their error bound, and float64 the rest. Two
    squared distances are a tie where they differ by no more than 1e-12 times the sum of the two embeddings'
    squared norms around the gallery's mean, which is what float64 tells apart for sure; cosines where they
    differ by no more than 1e-12.

    Args:
        embeddings: Float `[Q, D]`, NumPy or TensorFlow.
        labels: `[Q]`, integers or strings.
        gallery_embeddings: Float `[N, D]`, another set to search in. None: `embeddings` itself.
        gallery_labels: `[N]`, its labels.
        distance: "euclidean" or "cosine".
        with_map_at_r: Also find MAP@R and R-precision.
        backend: Who multiplies: "numpy", "tensorflow" (on a GPU where there is one) or "auto", TensorFlow for
            large inputs. Results are the same.
        progress: Show progress on standard error.

    Returns:
        A `RetrievalResult`. O(Q N D) time, half of it in its own set; about 4 (Q + N) D bytes of memory above
        the embeddings (8 N D in its own set), and some 100 MB a thread.

    Raises:
        ValueError: Embeddings that are not finite or not float `[N, D]`, lengths or D that differ, an
            all-zero embedding with the cosine distance, unknown `distance` or `backend`, no query with a
            right image.
    """
    queries, gallery, query_labels = _sides(embeddings, labels, gallery_embeddings, gallery_labels, distance)
    if not count_right(queries, gallery, queries is gallery).any():
        raise ValueError(
            "`labels` must hold at least one class with another image in the gallery, got none: "
            f"{len(queries)} queries, {len(gallery)} gallery images."
        )
    found: tuple[np.ndarray, ...]
    if with_map_at_r:
        found = precisions_at_r(queries, gallery, backend=backend, progress=progress)
    else:
        found = (first_right_ranks(queries, gallery, backend=backend, progress=progress),)
    by_image = [np.empty_like(values) for values in found]
    for values, sorted_values in zip(by_image, found):
        values[queries.order] = sorted_values
    return RetrievalResult(by_image[0], query_labels, len(gallery) - (queries is gallery), *by_image[1:])


def _sides(
    embeddings: Array,
    labels: Labels,
    gallery_embeddings: Optional[Array],
    gallery_labels: Optional[Labels],
    distance: str,
) -> tuple[Side, Side, np.ndarray]:
    """Checks the inputs; returns the queries' side, the gallery's (the same in an own set) and the labels."""
    if (gallery_embeddings is None) != (gallery_labels is None):
        raise ValueError("`gallery_embeddings` and `gallery_labels` must be given together, got one of them.")
    embeddings = inputs.check_embeddings(embeddings)
    labels = inputs.check_labels(labels, len(embeddings))
    if distance == "cosine":
        inputs.check_directions(embeddings)
    if gallery_embeddings is None or gallery_labels is None:
        frame = fit_frame(distance, embeddings)
        side = Side(embeddings, inputs.class_numbers(labels)[0], frame)
        return side, side, labels
    gallery = inputs.check_embeddings(gallery_embeddings, "gallery_embeddings")
    gallery_labels = inputs.check_labels(gallery_labels, len(gallery), "gallery_labels", "gallery_embeddings")
    if gallery.shape[1] != embeddings.shape[1]:
        raise ValueError(
            "`gallery_embeddings` must have the dimension of `embeddings`, "
            f"got {gallery.shape[1]} and {embeddings.shape[1]}."
        )
    if distance == "cosine":
        inputs.check_directions(gallery, "gallery_embeddings")
    classes, gallery_classes = inputs.class_numbers(labels, gallery_labels)
    frame = fit_frame(distance, gallery, embeddings)
    return Side(embeddings, classes, frame), Side(gallery, gallery_classes, frame), labels
