"""Where k-means starts: greedy k-means++, and the uniform draw.

Shapes: N images, D embedding dimension, C clusters, S draws of a batch, E closer pairs.
"""

from __future__ import annotations

import math

import numpy as np

from profs_tf.metrics.k_means.assign import NearestCenters
from profs_tf.utils.progress import Progress

# A batch of draws adds this fraction of the centers so far.
_GROWTH = 1 / 4


def random_start(num_images: int, num_clusters: int, generator: np.random.Generator) -> np.ndarray:
    """Draws distinct images uniformly, int64 `[C]`."""
    return generator.choice(num_images, num_clusters, replace=False)


def greedy_start(
    nearest: NearestCenters,
    norms_sq: np.ndarray,
    num_clusters: int,
    generator: np.random.Generator,
    bar: Progress,
) -> np.ndarray:
    """Chooses distinct images by greedy k-means++ (Arthur and Vassilvitskii 2007), scikit-learn's default.

    For each center, ``2 + floor(ln C)`` images are drawn with probability in proportion to their squared
    distance to the nearest center so far. The one that lowers the sum of these distances most becomes a
    center.

    Draws are made and compared for a quarter more centers at a time, by large matrix products. This does not
    change the probabilities: a draw made when its image's squared distance was d is kept with probability
    d' / d when its turn comes and the distance is d'. No image is compared twice, however often it is drawn.

    Args:
        nearest: The images.
        norms_sq: float64 `[N]`, their squared norms.
        num_clusters: C, at most N.
        generator: Random numbers.
        bar: Shows how many centers are found.

    Returns:
        int64 `[C]`. O(N D min(N, C log C)).
    """
    trials = 2 + int(math.log(num_clusters))
    chosen = [int(generator.integers(len(norms_sq)))]
    gains = _Gains(nearest, norms_sq, chosen[0])
    while len(chosen) < num_clusters and gains.distances_sq.any():
        bar.advance(f"{len(chosen)} of {num_clusters} starting centers", units=0)
        wanted = min(max(1, int(len(chosen) * _GROWTH)), num_clusters - len(chosen))
        draws = _Draws(gains.distances_sq, wanted * trials, generator)
        gains.add(draws.images)
        for _ in range(wanted):
            tried = draws.take(trials, gains.distances_sq)
            if len(tried) < trials:
                break
            chosen.append(int(tried[gains.of[tried].argmax()]))
            gains.accept(chosen[-1])
    # What is left coincides with centers: any of it will do.
    others = np.setdiff1d(np.arange(len(norms_sq)), chosen)
    rest = generator.choice(others, num_clusters - len(chosen), replace=False)
    return np.concatenate([chosen, rest]).astype(np.int64)


class _Draws:
    """Images drawn ahead in proportion to their squared distances.

    Attributes:
        images: int64 `[S]`.
    """

    def __init__(self, distances_sq: np.ndarray, size: int, generator: np.random.Generator) -> None:
        cumulative = np.cumsum(distances_sq)
        self.images = np.searchsorted(cumulative, generator.random(size) * cumulative[-1], side="right")
        # The squared distance that keeps a draw.
        self._limits = generator.random(size) * distances_sq[self.images]
        self._next = 0

    def take(self, size: int, distances_sq: np.ndarray) -> np.ndarray:
        """The next images, drawn in proportion to `distances_sq`, float64 `[N]`; fewer if they run out."""
        rest = slice(self._next, self._next + 4 * size)
        kept = np.flatnonzero(distances_sq[self.images[rest]] > self._limits[rest])[:size]
        if len(kept) == size:
            self._next += int(kept[-1]) + 1
        return self.images[rest][kept]


class _Gains:
    """By how much each image would lower the sum of squared distances if it were a center.

    Only pairs of images closer to each other than to the nearest center count. They are few, and get fewer
    with every center; a center changes only the gains of images that share a pair with one of its own.

    Attributes:
        distances_sq: float64 `[N]`, each image's squared distance to the nearest center.
        of: float64 `[N]`, the gains of the images that were added; of others, less than their gains.
    """

    def __init__(self, nearest: NearestCenters, norms_sq: np.ndarray, first: int) -> None:
        """Starts with one center."""
        self._nearest, self._norms_sq = nearest, norms_sq
        _, scores = nearest.find(nearest.points[[first], :-1])
        self.distances_sq = np.maximum(norms_sq - 2.0 * scores, 0)
        self.distances_sq[first] = 0
        self._added = np.zeros(len(norms_sq), bool)
        # Pairs of an image and another that would be its nearest center, `[E]` each.
        self._images, self._others = np.empty((2, 0), np.int64)
        self._pairs_sq, self._pair_gains = np.empty((2, 0))

    def add(self, images: np.ndarray) -> None:
        """Finds the gains of images, int64 `[n]`, that may repeat or have been added before. O(n N D)."""
        new = np.unique(images[~self._added[images]])
        if len(new):
            # A comparison serves both images of a pair: those added before have been compared with these.
            rest = np.flatnonzero(~self._added)
            self._added[new] = True
            ones, others, pairs_sq = self._nearest.list_close(rest, new, self._norms_sq, self.distances_sq)
            closer = pairs_sq < self.distances_sq[ones]
            # The new images were compared with each other both ways.
            back = (pairs_sq < self.distances_sq[others]) & ~self._added[ones]
            kept = self._pair_gains > 0
            self._images = np.concatenate([self._images[kept], ones[closer], others[back]])
            self._others = np.concatenate([self._others[kept], others[closer], ones[back]])
            self._pairs_sq = np.concatenate([self._pairs_sq[kept], pairs_sq[closer], pairs_sq[back]])
        self._pair_gains = np.maximum(self.distances_sq[self._images] - self._pairs_sq, 0)
        self._by_image, self._image_begins = _group(self._images, len(self._added))
        self._by_other, self._other_begins = _group(self._others, len(self._added))
        self.of = np.bincount(self._others, self._pair_gains, len(self._added))

    def accept(self, image: int) -> None:
        """Makes an image that was added a center. O(its pairs and theirs)."""
        own = self._by_other[self._other_begins[image] : self._other_begins[image + 1]]
        own = own[self._pair_gains[own] > 0]
        images = self._images[own]
        self.distances_sq[images] = self._pairs_sq[own]
        self.distances_sq[image] = 0
        begins = self._image_begins[images]
        sizes = self._image_begins[images + 1] - begins
        pairs = self._by_image[np.arange(sizes.sum()) + np.repeat(begins - np.cumsum(sizes) + sizes, sizes)]
        gains = np.maximum(np.repeat(self.distances_sq[images], sizes) - self._pairs_sq[pairs], 0)
        np.subtract.at(self.of, self._others[pairs], self._pair_gains[pairs] - gains)
        self._pair_gains[pairs] = gains


def _group(keys: np.ndarray, num_keys: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions in `keys` `[E]` by key, and where each key begins, int `[E]` and `[num_keys + 1]`. O(E)."""
    from scipy.sparse import csr_matrix

    # Transposing a sparse matrix is a counting sort.
    rows = (np.arange(len(keys)), keys, np.arange(len(keys) + 1))
    columns = csr_matrix(rows, (len(keys), num_keys)).tocsc()
    return columns.data, columns.indptr
