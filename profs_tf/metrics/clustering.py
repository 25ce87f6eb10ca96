"""Clustering: NMI, pair-counting F1 and AMI of k-means clusters against classes.

Shapes: N images, D embedding dimension, C clusters.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from profs_tf.metrics import inputs
from profs_tf.metrics.kmeans import kmeans


class ClusterScores(NamedTuple):
    """How well clusters agree with classes, in [0, 1] (AMI: 0 is chance, it may fall below)."""

    nmi: float
    f1: float
    ami: float


def cluster_scores(embeddings, labels, seed: int = 0, **options) -> ClusterScores:
    """Clusters embeddings with k-means, as many clusters as classes, and compares the two.

    Args:
        embeddings: Float `[N, D]`.
        labels: `[N]`, integers or strings.
        seed: Of the k-means start.
        **options: Further arguments of `kmeans`.

    Returns:
        NMI, F1 and AMI.

    Raises:
        ValueError: As `evaluate_retrieval` and `kmeans`.
    """
    embeddings = inputs.check_embeddings(embeddings)
    labels = inputs.check_labels(labels, len(embeddings))
    classes, _ = inputs.class_numbers(labels, None)
    clusters = kmeans(embeddings, int(classes.max()) + 1, seed=seed, **options).assignments
    return compare_clusters(classes, clusters)


def compare_clusters(classes: np.ndarray, clusters: np.ndarray) -> ClusterScores:
    """NMI (arithmetic mean), pair-counting F1 and AMI of two partitions `[N]`."""
    from sklearn import metrics

    (_, false_positive), (false_negative, true_positive) = metrics.cluster.pair_confusion_matrix(
        classes, clusters
    ).tolist()
    pairs = 2 * true_positive + false_positive + false_negative
    return ClusterScores(
        nmi=float(metrics.normalized_mutual_info_score(classes, clusters)),
        f1=2 * true_positive / pairs if pairs else 1.0,
        ami=float(metrics.adjusted_mutual_info_score(classes, clusters)),
    )
