"""Lloyd's k-means in float32 blocks.

Shapes: N images, D embedding dimension, C clusters.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from profs_tf.metrics import inputs

# Elements of the largest temporary matrix.
_BLOCK_ELEMENTS = 1 << 24


class KMeansResult(NamedTuple):
    """Clusters found by `kmeans`.

    Attributes:
        assignments: int64 `[N]`, each image's cluster.
        centres: float32 `[C, D]`.
        inertia: Sum of the squared distances of images to their centres.
        iterations: How many were made.
        converged: Whether it stopped because nothing moved any more.
    """

    assignments: np.ndarray
    centres: np.ndarray
    inertia: float
    iterations: int
    converged: bool


def kmeans(
    embeddings, num_clusters: int, seed: int = 0, max_iterations: int = 100, tolerance: float = 1e-4
) -> KMeansResult:
    """Clusters embeddings with Lloyd's algorithm from a start of distinct images drawn at random.

    Args:
        embeddings: Float `[N, D]`.
        num_clusters: C.
        seed: Of the start.
        max_iterations: At most so many.
        tolerance: Stops where the inertia falls by no more than this fraction.

    Returns:
        A `KMeansResult`. O(N C D) an iteration.

    Raises:
        ValueError: Embeddings as `evaluate_retrieval`; `num_clusters` outside [1, N].
    """
    embeddings = inputs.check_embeddings(embeddings).astype(np.float32, copy=False)
    if not 1 <= num_clusters <= len(embeddings):
        raise ValueError(
            f"`num_clusters` must be in [1, {len(embeddings)}], the number of embeddings, got {num_clusters}."
        )
    generator = np.random.default_rng(seed)
    centres = embeddings[np.sort(generator.choice(len(embeddings), num_clusters, replace=False))]
    inertia, converged, iteration = np.inf, False, 0
    for iteration in range(1, max_iterations + 1):
        assignments, distances_sq = _assign(embeddings, centres)
        last, inertia = inertia, float(distances_sq.sum())
        centres = _centres(embeddings, assignments, distances_sq, num_clusters)
        if last - inertia <= tolerance * last < np.inf:
            converged = True
            break
    return KMeansResult(assignments, centres, inertia, iteration, converged)


def _assign(embeddings: np.ndarray, centres: np.ndarray) -> tuple:
    """The nearest centre of each image and its squared distance."""
    assignments, scores = np.empty(len(embeddings), np.int64), np.empty(len(embeddings))
    half_norms = (centres**2).sum(axis=1) / 2
    rows = max(1, _BLOCK_ELEMENTS // len(centres))
    for start in range(0, len(embeddings), rows):
        block = embeddings[start : start + rows] @ centres.T - half_norms
        assignments[start : start + rows] = block.argmax(axis=1)
        scores[start : start + rows] = block.max(axis=1)
    norms_sq = np.einsum("nd,nd->n", embeddings, embeddings)
    return assignments, np.maximum(norms_sq - 2 * scores, 0)


def _centres(embeddings, assignments, distances_sq, num_clusters: int) -> np.ndarray:
    """Means of the clusters; an empty one moves to the image farthest from its centre."""
    counts = np.bincount(assignments, minlength=num_clusters)
    order = np.argsort(assignments, kind="stable")
    filled = np.flatnonzero(counts)
    starts = (np.cumsum(counts) - counts)[filled]
    centres = np.empty((num_clusters, embeddings.shape[1]), np.float32)
    centres[filled] = np.add.reduceat(embeddings[order], starts, axis=0) / counts[filled, None]
    empty = np.flatnonzero(counts == 0)
    centres[empty] = embeddings[np.argsort(-distances_sq, kind="stable")[: len(empty)]]
    return centres
