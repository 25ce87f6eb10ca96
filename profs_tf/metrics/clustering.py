"""Clustering: NMI, pair-counting F1 and AMI of k-means clusters against classes.

Shapes: N images, D embedding dimension.
"""

from __future__ import annotations

from typing import NamedTuple

from profs_tf.metrics import inputs
from profs_tf.metrics.agreement import adjusted_mutual_information, normalized_mutual_information, pair_f1
from profs_tf.metrics.lloyd import kmeans


class ClusterScores(NamedTuple):
    """How well k-means clusters agree with classes.

    Attributes:
        nmi: Normalised mutual information, arithmetic mean of the entropies, in [0, 1].
        f1: F1 of pairs of images, in [0, 1].
        ami: Adjusted mutual information; 0 is chance, 1 the best.
        iterations: Of k-means.
        converged: Whether k-means ended by itself.
    """

    nmi: float
    f1: float
    ami: float
    iterations: int
    converged: bool


def cluster_scores(embeddings, labels, seed: int = 0, **options) -> ClusterScores:
    """Clusters embeddings by k-means, as many clusters as classes, and compares the two (paper, section 4.2).

    Args:
        embeddings: Float `[N, D]`, NumPy or TensorFlow. They are clustered as they are: normalise them before
            where the model is used with normalised embeddings.
        labels: `[N]`, integers or strings.
        seed: Of the start of k-means.
        **options: `start`, `num_starts`, `max_iterations`, `tolerance`, `backend` and `progress` of `kmeans`.

    Returns:
        `ClusterScores`. Time and memory as `kmeans`.

    Raises:
        ValueError: As `kmeans`; labels of another length or kind.
    """
    embeddings = inputs.check_embeddings(embeddings)
    classes, _ = inputs.class_numbers(inputs.check_labels(labels, len(embeddings)))
    found = kmeans(embeddings, int(classes.max()) + 1, seed=seed, **options)
    return ClusterScores(
        nmi=normalized_mutual_information(classes, found.assignments),
        f1=pair_f1(classes, found.assignments),
        ami=adjusted_mutual_information(classes, found.assignments),
        iterations=found.iterations,
        converged=found.converged,
    )
