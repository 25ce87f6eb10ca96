"""How well two partitions of the same images agree: NMI, pair-counting F1, AMI.

Shapes: N images.
"""

from __future__ import annotations

import numpy as np


def normalized_mutual_information(classes: np.ndarray, clusters: np.ndarray) -> float:
    """NMI, mutual information over the arithmetic mean of the two entropies, in [0, 1]; 1 for one class each.

    Args:
        classes: int64 `[N]`.
        clusters: int64 `[N]`.

    Returns:
        The score. O(N log N).
    """
    from sklearn.metrics import normalized_mutual_info_score

    return float(normalized_mutual_info_score(classes, clusters, average_method="arithmetic"))


def pair_f1(classes: np.ndarray, clusters: np.ndarray) -> float:
    """F1 = 2 P R / (P + R) of pairs of images, in [0, 1] (Manning, Raghavan and Schuetze 2008, section 16.3).

    A pair is positive if its classes are equal, and predicted positive if its clusters are; P is precision
    and R recall. If no pair is either, F1 is 1.

    Args:
        classes: int64 `[N]`.
        clusters: int64 `[N]`.

    Returns:
        The score. O(N log N).
    """
    from sklearn.metrics.cluster import pair_confusion_matrix

    # As Python integers, which do not overflow.
    (_, false_positives), (false_negatives, true_positives) = pair_confusion_matrix(
        classes, clusters
    ).tolist()
    pairs = 2 * true_positives + false_positives + false_negatives
    return 2 * true_positives / pairs if pairs else 1.0


def adjusted_mutual_information(classes: np.ndarray, clusters: np.ndarray) -> float:
    """AMI, mutual information adjusted for chance, over the mean of the entropies (Vinh, Epps and Bailey
    2010).

    1 for equal partitions, 0 on average for random ones of the same sizes, below 0 for worse.

    *Differs* from `sklearn.metrics.adjusted_mutual_info_score` in time only: the expectation depends on the
    sizes of a class and a cluster, so it is computed once for each pair of sizes.

    Args:
        classes: int64 `[N]`.
        clusters: int64 `[N]`.

    Returns:
        The score. O(N log N), and the sum of the smaller size over all pairs of a class size and a cluster
        size.
    """
    from sklearn.metrics import mutual_info_score

    class_sizes = np.unique(classes, return_counts=True)[1]
    cluster_sizes = np.unique(clusters, return_counts=True)[1]
    if len(class_sizes) == len(cluster_sizes) and len(class_sizes) in (1, len(classes)):
        return 1.0  # Both are the only partition of this kind, where the definition is 0 / 0.
    if len(class_sizes) == 1 or len(cluster_sizes) == 1:
        return 0.0
    expected = _expected_mutual_information(class_sizes, cluster_sizes)
    mean_entropy = (_entropy(class_sizes) + _entropy(cluster_sizes)) / 2
    return float((mutual_info_score(classes, clusters) - expected) / (mean_entropy - expected))


def _entropy(sizes: np.ndarray) -> float:
    share = sizes / sizes.sum()
    return float(-(share * np.log(share)).sum())


def _expected_mutual_information(class_sizes: np.ndarray, cluster_sizes: np.ndarray) -> float:
    """Mutual information expected of random partitions of these sizes (Vinh et al. 2010, equation 24a)."""
    from scipy.special import gammaln

    num_images = int(class_sizes.sum())
    log_factorial = gammaln(np.arange(num_images + 1) + 1.0)
    total = 0.0
    for size, number in zip(*np.unique(class_sizes, return_counts=True)):
        for other_size, other_number in zip(*np.unique(cluster_sizes, return_counts=True)):
            common = np.arange(max(1, size + other_size - num_images), min(size, other_size) + 1)
            log_chance = (
                log_factorial[size]
                + log_factorial[other_size]
                + log_factorial[num_images - size]
                + log_factorial[num_images - other_size]
                - log_factorial[num_images]
                - log_factorial[common]
                - log_factorial[size - common]
                - log_factorial[other_size - common]
                - log_factorial[num_images - size - other_size + common]
            )
            information = common / num_images * np.log(num_images * common / (size * other_size))
            total += number * other_number * float((information * np.exp(log_chance)).sum())
    return total
