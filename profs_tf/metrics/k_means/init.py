"""Where k-means starts: which images are its first centres.

Shapes: N images, C clusters.
"""

from __future__ import annotations

import numpy as np

from profs_tf.metrics.k_means.assign import NearestCentres

# Draws in which k-means++ finds its centres.
_DRAWS = 64


def random_start(num_images: int, num_clusters: int, generator: np.random.Generator) -> np.ndarray:
    """Draws distinct images, int64 `[C]`."""
    return generator.choice(num_images, num_clusters, replace=False)


def distant_start(
    nearest: NearestCentres, norms_sq: np.ndarray, num_clusters: int, generator: np.random.Generator
) -> np.ndarray:
    """Draws distinct images far from each other: k-means++ (Arthur and Vassilvitskii 2007).

    Each is drawn with a chance in proportion to its squared distance to the nearest image drawn so far.

    *Differs:* with more than 64 clusters, C / 64 images are drawn at a time (as in k-means||, Bahmani et
    al. 2012, but without drawing too many), so that all takes as long as one comparison of images with
    centres.

    Args:
        nearest: The images.
        norms_sq: float64 `[N]`, their squared norms.
        num_clusters: C, at most N.
        generator: Of random numbers.

    Returns:
        int64 `[C]`. O(N C D).
    """
    at_a_time = -(-num_clusters // _DRAWS)
    chosen = generator.integers(len(norms_sq), size=1)
    distances_sq, new = np.full(len(norms_sq), np.inf), chosen
    while True:
        _, scores = nearest.find(nearest.points[new, :-1])
        np.minimum(distances_sq, np.maximum(norms_sq - 2.0 * scores, 0), out=distances_sq)
        distances_sq[chosen] = 0
        missing = min(at_a_time, num_clusters - len(chosen))
        if not missing:
            return chosen
        new = _draw(distances_sq, chosen, missing, generator)
        chosen = np.concatenate([chosen, new])


def _draw(weights: np.ndarray, chosen: np.ndarray, size: int, generator: np.random.Generator) -> np.ndarray:
    """Up to `size` distinct images that are not among the chosen; one at least."""
    cumulative = np.cumsum(weights)
    if cumulative[-1] == 0:
        # All images coincide with one that was chosen: any other will do.
        others = np.setdiff1d(np.arange(len(weights)), chosen)
        return generator.choice(others, size, replace=False)
    places = np.searchsorted(cumulative, generator.random(size) * cumulative[-1], side="right")
    return np.unique(places)
