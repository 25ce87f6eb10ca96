"""What the gallery shows of a split: its worst classes, its most confused pairs of classes, and a map.

Shapes: N images, D embedding dimension, K nearest images of each, P pairs of classes.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, Optional, Union

import numpy as np

from profs_tf.metrics.neighbors import nearest
from profs_tf.metrics.retrieval import RetrievalResult, evaluate_retrieval
from profs_tf.metrics.scores import query_and_gallery
from profs_tf.utils.checks import check_one_of

MAPS = ("pca", "tsne")
_CONFUSIONS = 40


class Confusion(NamedTuple):
    """Two classes that are confused.

    Attributes:
        classes: Their labels, the lower first.
        images: The nearest pair of a query and an image of the other class.
        count: How often an image of one class is among the nearest of an image of the other.
    """

    classes: tuple[int, int]
    images: tuple[int, int]
    count: int  # type: ignore[assignment]  # hides the tuple's method


@dataclasses.dataclass(frozen=True, eq=False)
class Neighborhoods:
    """The nearest images of every image of a split.

    Attributes:
        labels: int64 `[N]`.
        indices: int64 `[N, K]`, the nearest first, without the image itself.
        distances: float64 `[N, K]`.
        retrieval: Ranks of the positives, as in the evaluation.
        is_query: Bool `[N]`, the images whose neighborhoods count.
    """

    labels: np.ndarray
    indices: np.ndarray
    distances: np.ndarray
    retrieval: RetrievalResult
    is_query: np.ndarray

    @property
    def nearest_is_positive(self) -> np.ndarray:
        """Bool `[N]`: the nearest image is of the same class."""
        return self.labels[self.indices[:, 0]] == self.labels

    def class_recall(self) -> dict[Union[int, float, str], float]:
        """Returns {label: Recall@1} of the classes that have more than one image."""
        return self.retrieval.class_recall_at(1)

    def worst_first(self, images: np.ndarray) -> np.ndarray:
        """Sorts images by Recall@1 of their class, then class, then correctness; int64 as `images`."""
        recall, correct = self.class_recall(), self.nearest_is_positive
        # Classes with one image have no recall and come last.
        return np.array(
            sorted(
                np.asarray(images).tolist(),
                key=lambda i: (recall.get(int(self.labels[i]), 2.0), self.labels[i], correct[i], i),
            ),
            np.int64,
        )

    def confusions(self) -> list[Confusion]:
        """Returns the 40 pairs of classes, or fewer, that are confused most often; O(N K log N K)."""
        query = np.repeat(np.arange(len(self.labels)), self.indices.shape[1])
        image, distance = self.indices.ravel(), self.distances.ravel()
        negative = (self.labels[query] != self.labels[image]) & self.is_query[query]
        query, image, distance = query[negative], image[negative], distance[negative]
        classes = np.sort(np.stack([self.labels[query], self.labels[image]], axis=1), axis=1)
        # Of each pair of classes the nearest pair of images comes first.
        order = np.lexsort((image, query, distance))
        pairs, first, counts = np.unique(classes[order], axis=0, return_index=True, return_counts=True)
        chosen = np.lexsort((pairs[:, 1], pairs[:, 0], -counts))[:_CONFUSIONS]
        return [
            Confusion(
                (int(pairs[i, 0]), int(pairs[i, 1])),
                (int(query[order[first[i]]]), int(image[order[first[i]]])),
                int(counts[i]),
            )
            for i in chosen
        ]


def find_neighborhoods(
    embeddings: np.ndarray,
    labels: np.ndarray,
    k: int,
    *,
    is_query: Optional[np.ndarray] = None,
    distance: str = "euclidean",
    progress: bool = False,
) -> Neighborhoods:
    """Finds the nearest images of every image of a split; O(N^2 D) time, memory as the two searches.

    Args:
        embeddings: Float `[N, D]`.
        labels: int64 `[N]`.
        k: K.
        is_query: Bool `[N]`: only the other images are a gallery, and only queries count. None: all are both.
        distance: "euclidean" or "cosine".
        progress: Whether to show progress.

    Raises:
        ValueError: As `metrics.nearest` and `metrics.evaluate_retrieval`.
    """
    labels = np.asarray(labels)
    in_gallery = np.ones(len(labels), bool) if is_query is None else ~is_query
    gallery = np.flatnonzero(in_gallery)
    own = np.where(in_gallery, np.cumsum(in_gallery) - 1, -1)
    # With labels, ties rank as in Recall@K.
    indices, distances = nearest(
        embeddings,
        embeddings[gallery],
        k,
        distance=distance,
        own=own,
        labels=labels,
        gallery_labels=labels[gallery],
        progress=progress,
    )
    split = query_and_gallery(embeddings, labels, is_query)
    retrieval = evaluate_retrieval(**split, distance=distance, progress=progress)
    counted = np.ones(len(labels), bool) if is_query is None else np.asarray(is_query)
    return Neighborhoods(labels, gallery[indices], distances, retrieval, counted)


def map_to_plane(embeddings: np.ndarray, method: str, seed: int = 0) -> np.ndarray:
    """Projects embeddings `[N, D]` to the unit square, float64 `[N, 2]`.

    Args:
        embeddings: float, finite; N at least 3.
        method: "pca", or "tsne" (scikit-learn's, initialized with PCA), which takes far longer.
        seed: Of t-SNE.

    Raises:
        ValueError: If `method` is unknown, or there are fewer than 3 embeddings.
    """
    check_one_of("method", method, MAPS)
    if len(embeddings) < 3:
        raise ValueError(f"`embeddings` must be at least 3, got {len(embeddings)}.")
    embeddings = np.asarray(embeddings, np.float64)
    if not np.ptp(embeddings, axis=0).any():
        return np.zeros([len(embeddings), 2])
    if embeddings.shape[1] < 2:
        embeddings = np.concatenate([embeddings, np.zeros_like(embeddings)], axis=1)
    if method == "pca":
        from sklearn.decomposition import PCA

        points = PCA(2, svd_solver="full").fit_transform(embeddings)
    else:
        from sklearn.manifold import TSNE

        perplexity = min(30.0, (len(embeddings) - 1) / 3)
        points = TSNE(2, perplexity=perplexity, init="pca", random_state=seed).fit_transform(embeddings)
    points = points.astype(np.float64) - points.min(axis=0)
    # One scale for both axes keeps the proportions of distances.
    return points / points.max()
