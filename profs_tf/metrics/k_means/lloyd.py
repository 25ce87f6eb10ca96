"""Lloyd's k-means by float32 products of blocks, without comparisons that cannot change the result.

From the second iteration on, most clusters keep their members and therefore their center. An image whose
center did not move is compared only with the centers that did. The result is that of comparing all with all.

Shapes: N images, D embedding dimension, C clusters.
"""

from __future__ import annotations

from typing import NamedTuple, Union

import numpy as np

from profs_tf.metrics import arguments as inputs
from profs_tf.metrics.exact.embeddings import fit_centering
from profs_tf.metrics.exact.matmul import open_product
from profs_tf.metrics.k_means.assign import NearestCenters
from profs_tf.metrics.k_means.init import greedy_start, random_start
from profs_tf.utils.array_types import Array
from profs_tf.utils.checks import check_count
from profs_tf.utils.progress import Progress

STARTS = ("k-means++", "random")

# Images whose embeddings are added up together, in float32.
_SUM_ROWS = 4096


class KMeansResult(NamedTuple):
    """Clusters found by `kmeans`.

    Attributes:
        assignments: int64 `[N]`, the cluster of each image, whose center is the nearest.
        centers: float64 `[C, D]`.
        inertia: The sum of squared distances of images to their centers.
        iterations: How often centers were moved to the means of their clusters.
        converged: Whether the last iteration lowered the inertia by no more than the tolerance.
    """

    assignments: np.ndarray
    centers: np.ndarray
    inertia: float
    iterations: int
    converged: bool


def kmeans(
    embeddings: Array,
    num_clusters: int,
    *,
    seed: int = 0,
    start: Union[str, Array] = "k-means++",
    num_starts: int = 1,
    max_iterations: int = 100,
    tolerance: float = 1e-5,
    backend: str = "auto",
    progress: bool = False,
) -> KMeansResult:
    """Clusters embeddings with Lloyd's algorithm.

    A cluster without members takes over the image that is farthest from its center. Fewer clusters than asked
    for have members only where embeddings coincide.

    Args:
        embeddings: Float `[N, D]`, NumPy or TensorFlow.
        num_clusters: C.
        seed: Of the start; one seed gives one result on one backend.
        start: "k-means++" (greedy, as scikit-learn's default), "random" for images drawn uniformly, or
            centers, float `[C, D]`.
        num_starts: The number of starts; the result with the least inertia is returned.
        max_iterations: The largest number of iterations.
        tolerance: The fraction of the inertia that an iteration must gain for another one.
        backend: As for `evaluate_retrieval`.
        progress: Show progress on standard error.

    Returns:
        A `KMeansResult`. O(N D min(N, C log C)) for the start and O(N C D) for each of the first iterations,
        later far less; about 12 N D bytes of memory above the embeddings.

    Raises:
        ValueError: If embeddings are not finite or not float `[N, D]`, `num_clusters` is not in [1, N], or
            another argument is out of its range.
    """
    embeddings = inputs.check_embeddings(embeddings)
    _check(embeddings, num_clusters, seed, start, num_starts, max_iterations, tolerance)
    centering = fit_centering("euclidean", embeddings)
    generator = np.random.default_rng(seed)
    bar = Progress("k-means", num_starts * (max_iterations + 1), progress)
    operations = 2.0 * embeddings.size * num_clusters
    with bar, open_product(backend, operations) as product:
        nearest = NearestCenters(embeddings, centering, product)
        norms_sq = centering.norms_sq(embeddings)
        results = []
        for _ in range(num_starts):
            if not isinstance(start, str):
                centers = np.asarray(start, np.float64) * centering.scale - centering.center
            elif start == "random":
                centers = nearest.points[random_start(len(embeddings), num_clusters, generator), :-1]
            else:
                centers = nearest.points[greedy_start(nearest, norms_sq, num_clusters, generator, bar), :-1]
            bar.advance("start found")
            lloyd = _Lloyd(nearest, norms_sq, centers.astype(np.float32))
            results.append(lloyd.run(max_iterations, tolerance, bar))
    best = min(results, key=lambda result: result.inertia)
    return best._replace(
        centers=(best.centers + centering.center) / centering.scale,
        inertia=best.inertia / centering.scale / centering.scale,
    )


class _Lloyd:
    """One run from one start; all vectors are centered and scaled."""

    def __init__(self, nearest: NearestCenters, norms_sq: np.ndarray, centers: np.ndarray) -> None:
        """Finds the images' nearest centers.

        Args:
            nearest: The images.
            norms_sq: float64 `[N]`, their squared norms.
            centers: float32 `[C, D]`, where to start; changed in place.
        """
        self._nearest, self._norms_sq, self._centers = nearest, norms_sq, centers
        self._assignments, self._scores = nearest.find(centers)

    def run(self, max_iterations: int, tolerance: float, bar: Progress) -> KMeansResult:
        """Moves centers and reassigns images in turn until the inertia stays."""
        moved, members, inertia = np.arange(len(self._centers)), self._fill_empty(), self._inertia()
        for iteration in range(1, max_iterations + 1):
            bar.advance(f"{len(moved)} centers move")
            self._centers[moved] = self._means(members, moved)
            self._assign(members, moved)
            last, inertia = inertia, self._inertia()
            last_members, members = members, self._fill_empty()
            changed = members != last_members
            moved = np.union1d(members[changed], last_members[changed])
            if not len(moved) or last - inertia <= tolerance * last:
                return self._result(iteration, converged=True)
        return self._result(max_iterations, converged=False)

    def _result(self, iterations: int, converged: bool) -> KMeansResult:
        inertia = 0.0
        for start in range(0, len(self._assignments), _SUM_ROWS):
            block = slice(start, start + _SUM_ROWS)
            # From differences: products of tight clusters would leave rounding errors only.
            rows = self._nearest.points[block, :-1] - self._centers[self._assignments[block]]
            inertia += float(np.einsum("nd,nd->", rows, rows, dtype=np.float64))
        return KMeansResult(self._assignments, self._centers, inertia, iterations, converged)

    def _distances_sq(self) -> np.ndarray:
        return np.maximum(self._norms_sq - 2.0 * self._scores, 0)

    def _inertia(self) -> float:
        return float(self._distances_sq().sum())

    def _fill_empty(self) -> np.ndarray:
        """The assignments, except that empty clusters get the images farthest from their centers."""
        counts = np.bincount(self._assignments, minlength=len(self._centers))
        empty = np.flatnonzero(counts == 0).tolist()
        if not empty:
            return self._assignments
        members = self._assignments.copy()
        for image in np.argsort(-self._distances_sq(), kind="stable"):
            # The only member of a cluster stays.
            if counts[members[image]] > 1:
                counts[members[image]] -= 1
                members[image] = empty.pop()
            if not empty:
                break
        return members

    def _means(self, members: np.ndarray, clusters: np.ndarray) -> np.ndarray:
        """Means of the images of some clusters, float64 `[n, D]`."""
        from scipy.sparse import csr_matrix

        # Images of other clusters are numbered last.
        numbers = np.full(len(self._centers), len(clusters))
        numbers[clusters] = np.arange(len(clusters))
        numbers = numbers[members]
        order = np.argsort(numbers, kind="stable")[: np.count_nonzero(numbers < len(clusters))]
        # The 1 that follows each image adds up to the number of images.
        sums = np.zeros((len(clusters), self._nearest.points.shape[1]))
        for start in range(0, len(order), _SUM_ROWS):
            images = order[start : start + _SUM_ROWS]
            present, first = np.unique(numbers[images], return_index=True)
            belongs = (np.ones(len(images), np.float32), images, np.append(first, len(images)))
            # Several times as fast as `add.reduceat`.
            sums[present] += csr_matrix(belongs, (len(present), len(members))) @ self._nearest.points
        return sums[:, :-1] / sums[:, -1:]

    def _assign(self, members: np.ndarray, moved: np.ndarray) -> None:
        """Updates the images' nearest centers after some centers moved."""
        has_moved = np.zeros(len(self._centers), bool)
        has_moved[moved] = True
        affected = has_moved[members]
        if affected.all():
            self._assignments, self._scores = self._nearest.find(self._centers)
            return
        self._assignments, self._scores = members.copy(), self._scores.copy()
        images = np.flatnonzero(affected)
        self._assignments[images], self._scores[images] = self._nearest.find(self._centers, images)
        images = np.flatnonzero(~affected)
        found, scores = self._nearest.find(self._centers[moved], images)
        better = scores > self._scores[images]
        self._assignments[images[better]] = moved[found[better]]
        self._scores[images[better]] = scores[better]


def _check(
    embeddings: np.ndarray,
    num_clusters: int,
    seed: int,
    start: Union[str, Array],
    num_starts: int,
    max_iterations: int,
    tolerance: float,
) -> None:
    check_count("num_clusters", num_clusters)
    check_count("seed", seed, minimum=0)
    check_count("num_starts", num_starts)
    check_count("max_iterations", max_iterations)
    if num_clusters > len(embeddings):
        raise ValueError(
            f"`num_clusters` must be <= {len(embeddings)}, the number of embeddings, got {num_clusters}."
        )
    if not tolerance >= 0:
        raise ValueError(f"`tolerance` must be >= 0, got {tolerance}.")
    if isinstance(start, str):
        if start not in STARTS:
            raise ValueError(f"`start` must be one of {', '.join(STARTS)}, or centers, got {start!r}.")
        return
    centers = inputs.check_embeddings(start, "start")
    if centers.shape != (num_clusters, embeddings.shape[1]):
        raise ValueError(
            f"`start` must have shape [C, D], {(num_clusters, embeddings.shape[1])}, got {centers.shape}."
        )
    if num_starts > 1:
        raise ValueError(f"`num_starts` must be 1 where `start` holds centers, got {num_starts}.")
