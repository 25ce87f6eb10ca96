"""Chooses the prototypes of a projection of CCP: a pool of each class, and the K images that cover it best.

Shapes: L classes, b images of a class in the pool, K prototypes of a class, P points that cover it already, D
embedding dimension.

A pool of one class with b = 4 points on a line, K = 2, and one point that covers it already, at 0:

    pool                            1     2     6     7
    distance to the nearest center  1     2     6     7     the farthest, 7, is chosen
    distance to the nearest center  1     2     1     0     2 is chosen
"""

from typing import Optional

import numpy as np

from profs_tf.sampling import random_streams
from profs_tf.sampling.batch_sampler import draw_without_replacement
from profs_tf.sampling.class_index import ClassTable

# Classes at once, so that a pool of many classes does not need its size in memory twice.
_CLASSES_AT_ONCE = 256


def draw_pool(table: ClassTable, seed: int, projection_index: int, pool_size: int) -> np.ndarray:
    """Returns the images from which the prototypes of projection k are chosen; a pure function.

    Args:
        table: The images of each class.
        seed: The run's seed.
        projection_index: k.
        pool_size: b. A class with fewer images has each once before it has one again.

    Returns:
        int64 [L, b]: image indices, drawn without replacement.
    """
    random = random_streams.generator(seed, random_streams.POOL, projection_index)
    positions = draw_without_replacement(random, table.sizes, pool_size)
    return table.images_by_class[table.starts[:, None] + positions]


def greedy_k_center(pool: np.ndarray, count: int, covered: Optional[np.ndarray] = None) -> np.ndarray:
    """Returns which points of each class's pool cover the class best, chosen one by one.

    Each is the point that is farthest from its nearest center; centers are the points chosen so far and
    those of `covered`. Hence the largest distance to a center is at most twice the smallest possible one
    (Gonzalez: "Clustering to Minimize the Maximum Intercluster Distance", 1985). Of points that are equally
    far the first is chosen, and without `covered` the first point of the pool is the first center.

    Args:
        pool: float [L, b, D].
        count: K, at most b.
        covered: float [L, P, D], or None.

    Returns:
        int64 [L, K], positions in the pool. O(L b (K + P) D) time.

    Raises:
        ValueError: If `count` is not from 1 to b.
    """
    num_classes, pool_size, _ = pool.shape
    if not 1 <= count <= pool_size:
        raise ValueError(f"`count` must be from 1 to the {pool_size} points of the pool, got {count}.")
    parts = []
    for first in range(0, num_classes, _CLASSES_AT_ONCE):
        part = slice(first, first + _CLASSES_AT_ONCE)
        parts.append(_choose(pool[part], count, None if covered is None else covered[part]))
    return np.concatenate(parts)


def _choose(pool: np.ndarray, count: int, covered: Optional[np.ndarray]) -> np.ndarray:
    pool = pool.astype(np.float64)
    # Squared, to the nearest center; chosen points have -1, so that none is chosen twice.
    nearest_sq = np.full(pool.shape[:2], np.inf)
    for center in () if covered is None else covered.astype(np.float64).swapaxes(0, 1):
        np.minimum(nearest_sq, _distances_sq(pool, center), out=nearest_sq)
    classes = np.arange(len(pool))
    chosen = np.empty((len(pool), count), np.int64)
    for turn in range(count):
        chosen[:, turn] = nearest_sq.argmax(axis=1)
        np.minimum(nearest_sq, _distances_sq(pool, pool[classes, chosen[:, turn]]), out=nearest_sq)
        nearest_sq[classes, chosen[:, turn]] = -1.0
    return chosen


def _distances_sq(pool: np.ndarray, center: np.ndarray) -> np.ndarray:
    """Returns the squared distances, [L, b], to one center of each class, [L, D]."""
    return np.square(pool - center[:, None]).sum(axis=2)
