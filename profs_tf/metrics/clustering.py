"""Clustering: NMI, pair-counting F1 and AMI of k-means clusters against classes.

Shapes: N images, D embedding dimension.
"""

from __future__ import annotations

from typing import NamedTuple

from profs_tf.metrics import arguments as inputs
from profs_tf.metrics.agreement import adjusted_mutual_information, normalized_mutual_information, pair_f1
from profs_tf.metrics.k_means.lloyd import kmeans
from profs_tf.utils.array_types import Array, Labels


class ClusterScores(NamedTuple):
    """How well k-means clusters agree with classes.

    Attributes:
        nmi: Normalized mutual information, arithmetic mean of the entropies, in [0, 1].
        f1: F1 of pairs of images, in [0, 1].
        ami: Adjusted mutual information; 0 is chance, 1 the best.
        iterations: Of k-means.
        converged: Whether k-means converged.
    """

    nmi: float
    f1: float
    ami: float
    iterations: int
    converged: bool


def cluster_scores(
    embeddings: Array,
    labels: Labels,
    seed: int = 0,
    *,
    start: str = "k-means++",
    num_starts: int = 1,
    max_iterations: int = 100,
    tolerance: float = 1e-5,
    backend: str = "auto",
    progress: bool = False,
) -> ClusterScores:
    """Compares classes with the clusters of k-means, as many as classes (paper, section 5.1).

    Args:
        embeddings: Float `[N, D]`, NumPy or TensorFlow. They are clustered as they are: normalize them first
            if the model is used with normalized embeddings.
        labels: `[N]`, integers or strings.
        seed: Of the start of k-means; one seed gives one result on one backend.
        start: As for `kmeans`.
        num_starts: As for `kmeans`.
        max_iterations: As for `kmeans`.
        tolerance: As for `kmeans`.
        backend: "numpy", "tensorflow" or "auto".
        progress: Show progress on standard error.

    Returns:
        `ClusterScores`. Time and memory as `kmeans` with as many clusters as classes.

    Raises:
        ValueError: As `kmeans`, or if the length or kind of labels is wrong.
    """
    embeddings = inputs.check_embeddings(embeddings)
    classes, _ = inputs.class_numbers(inputs.check_labels(labels, len(embeddings)))
    found = kmeans(
        embeddings,
        int(classes.max()) + 1,
        seed=seed,
        start=start,
        num_starts=num_starts,
        max_iterations=max_iterations,
        tolerance=tolerance,
        backend=backend,
        progress=progress,
    )
    return ClusterScores(
        nmi=normalized_mutual_information(classes, found.assignments),
        f1=pair_f1(classes, found.assignments),
        ami=adjusted_mutual_information(classes, found.assignments),
        iterations=found.iterations,
        converged=found.converged,
    )
