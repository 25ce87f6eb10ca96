"""The k nearest gallery images of each query: exact, by blocks of bounded memory.

A score is minus half a squared distance, so that the nearest image has the largest.

Shapes: Q queries, N gallery images, D embedding dimension; r queries and c gallery images of a tile.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Optional, Union

import numpy as np

from profs_tf.metrics import arguments as inputs
from profs_tf.metrics.exact.class_sorted import Side, mirrored, score_error
from profs_tf.metrics.exact.coordinates import Frame, fit_frame
from profs_tf.metrics.exact.matmul import Prepared, open_product
from profs_tf.metrics.exact.tile import list_places
from profs_tf.utils.array_types import Array
from profs_tf.utils.progress import Progress
from profs_tf.utils.threads import in_threads

# Rows and columns of a tile of scores.
_TILE = 2048

# How far outside the gallery's frame a query may lie before float32 squares are in danger.
_REACH = 2.0**20

# Bytes of float32 blocks that are kept from search to search: making them is most of a single query's work.
_KEPT_BYTES = 1 << 29

# Pairs whose distances are computed together: what a core's cache holds.
_PAIRS = 256

# Candidates of a tile, over those sought, from which on its own best narrow them down first.
_PLENTY = 2

Own = Union[Array, Sequence[int]]
"""The gallery image that each query itself is, `[Q]`: see `NearestSearch.search`."""


class NearestSearch:
    """Searches a gallery that stays the same: what depends on it alone is computed once.

    Attributes:
        distance: "euclidean" or "cosine" (one minus the cosine).
    """

    def __init__(self, gallery: Array, *, distance: str = "euclidean", backend: str = "auto") -> None:
        """Prepares the gallery; it is not copied, and may be a memory map.

        Args:
            gallery: Float `[N, D]`, NumPy or TensorFlow.
            distance: "euclidean" or "cosine".
            backend: As for `evaluate_retrieval`.

        Raises:
            ValueError: As `evaluate_retrieval` for a gallery.

        O(N D) time; 24 N bytes of memory, and from the first search on 4 N D where that is at most 512 MB.
        """
        self.distance, self._backend = distance, backend
        self._gallery = _checked(gallery, distance, "gallery")
        self._frame = fit_frame(distance, self._gallery)
        self._side = _unsorted(self._gallery, self._frame)
        self._factors: dict[tuple[int, int], np.ndarray] = {}

    def search(
        self, queries: Array, k: int, *, own: Optional[Own] = None, progress: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Finds each query's k nearest gallery images, the nearest first.

        Float32 products decide what is beyond their error bound, and float64 differences the rest; images at
        the same distance come in the gallery's order. So the result does not depend on backend, threads or
        the other queries.

        Args:
            queries: Float `[Q, D]`, NumPy or TensorFlow.
            k: How many.
            own: Integer `[Q]`, the gallery image that each query itself is, which is left out; negative where
                it is none. None: no query is in the gallery.
            progress: Show progress on standard error.

        Returns:
            Indices int64 `[Q, k]` and distances float64 `[Q, k]`. O(Q N D) time; memory above gallery and
            result: about 4 Q D bytes and some 100 MB a thread, 200 MB where most of it is equal.

        Raises:
            ValueError: Queries that are not finite or whose D differs, k out of its range, `own` that is no
                index of the gallery.
        """
        queries = _checked(queries, self.distance, "queries")
        if queries.shape[1] != self._gallery.shape[1]:
            raise ValueError(
                "`queries` must have the dimension of the gallery, "
                f"got {queries.shape[1]} and {self._gallery.shape[1]}."
            )
        own = check_own(own, len(queries), len(self._gallery))
        check_k(k, len(self._gallery), own)
        frame, gallery = self._frame, self._side
        if self._is_far(queries):
            frame = fit_frame(self.distance, self._gallery, queries)
            gallery = _unsorted(self._gallery, frame)
        pairs = _Pairs(queries, self._gallery, frame)
        tops = self._tops(_unsorted(queries, frame), gallery, pairs, int(k), own, progress)
        indices = np.concatenate([top.indices for top in tops])
        scores = np.concatenate([top.scores for top in tops])
        # Adding 0 turns -0 into 0.
        halves = -scores / frame.scale**2 + 0.0
        return indices, halves if self.distance == "cosine" else np.sqrt(2.0 * halves)

    def _is_far(self, queries: np.ndarray) -> bool:
        if self.distance == "cosine":
            return False
        largest = max(float(queries.max()), -float(queries.min())) * self._frame.scale
        return largest + np.abs(self._frame.center).max() > _REACH

    def _factor(self, gallery: Side, block: slice) -> np.ndarray:
        """A block of the gallery as the right factor of products."""
        if gallery is not self._side or 4 * len(gallery) * gallery.width > _KEPT_BYTES:
            return mirrored(gallery.float32_block(block))
        place = block.start, block.stop
        if place not in self._factors:
            self._factors[place] = mirrored(gallery.float32_block(block))
        return self._factors[place]

    def _tops(
        self, queries: Side, gallery: Side, pairs: _Pairs, k: int, own: np.ndarray, progress: bool
    ) -> list[_Top]:
        rows, columns = _slices(len(queries)), _slices(len(gallery))
        bar = Progress("nearest", len(rows) * len(columns), progress)
        tops = []
        with open_product(self._backend, 2.0 * len(queries) * len(gallery) * queries.width) as product:
            for part in rows:
                left = product.prepare(queries.float32_block(part))
                top = _Top(part.stop - part.start, k, len(gallery))

                def look(
                    block: slice, part: slice = part, left: Prepared = left, top: _Top = top
                ) -> tuple[np.ndarray, np.ndarray]:
                    scores = product(left, product.prepare(self._factor(gallery, block)))
                    error = score_error(queries, gallery, part, block)
                    near = _candidates(scores, error, k + bool((own[part] >= 0).any()), top.least)
                    row, column = (places[own[part][near[0]] != near[1] + block.start] for places in near)
                    column = column + block.start
                    found = pairs.scores(row + part.start, column)
                    return _best(row, column, found, top.indices.shape, len(gallery))

                for found in in_threads(look, columns):
                    top.merge(*found)
                    bar.advance()
                tops.append(top)
        bar.finish()
        return tops


def nearest(
    queries: Array,
    gallery: Array,
    k: int,
    *,
    distance: str = "euclidean",
    own: Optional[Own] = None,
    backend: str = "auto",
    progress: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Finds each query's k nearest gallery images once; see `NearestSearch`, also for arguments and errors.

    Returns:
        Indices int64 `[Q, k]` and distances float64 `[Q, k]`.
    """
    search = NearestSearch(gallery, distance=distance, backend=backend)
    return search.search(queries, k, own=own, progress=progress)


class _Top:
    """The best of some queries so far.

    Attributes:
        scores: float64 `[r, k]`, descending; minus infinity where nothing was found yet.
        indices: int64 `[r, k]`, their gallery images; N where nothing was found yet.
    """

    def __init__(self, size: int, k: int, absent: int) -> None:
        self.scores, self.indices = np.full([size, k], -np.inf), np.full([size, k], absent)

    @property
    def least(self) -> np.ndarray:
        """What another image's score must reach, float64 `[r]`. It only grows, so it may be read late."""
        return self.scores[:, -1]

    def merge(self, scores: np.ndarray, indices: np.ndarray) -> None:
        """Takes the best `[r, k]` of other gallery images into account."""
        k = self.scores.shape[1]
        scores = np.concatenate([self.scores, scores], axis=1)
        indices = np.concatenate([self.indices, indices], axis=1)
        order = np.lexsort((indices, -scores), axis=1)[:, :k]
        self.indices = np.take_along_axis(indices, order, axis=1)
        self.scores = np.take_along_axis(scores, order, axis=1)


class _Pairs:
    """The true scores of pairs."""

    def __init__(self, queries: np.ndarray, gallery: np.ndarray, frame: Frame) -> None:
        self._queries, self._gallery = queries, gallery
        # Around no center: the difference of two float32 values then has no rounding, so that ties are ties.
        self._frame = dataclasses.replace(frame, center=np.zeros_like(frame.center))

    def scores(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Minus half the squared distances of queries and gallery images `[n]`, float64 `[n]`."""
        scores = np.empty(len(rows))
        for start in range(0, len(rows), _PAIRS):
            part = slice(start, start + _PAIRS)
            differences = self._frame.rows(self._queries, rows[part])
            differences -= self._frame.rows(self._gallery, columns[part])
            scores[part] = np.einsum("nd,nd->n", differences, differences) / -2
        return scores


def _candidates(
    scores: np.ndarray, error: np.ndarray, k: int, least: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns, int64 `[n]` each, of all that may be among the k best of their row.

    Args:
        scores: Float32 `[r, c]`.
        error: float64 `[r]`, how far they may be from the true ones.
        k: How many are sought.
        least: float64 `[r]`, what the true scores must reach.
    """
    reached = scores >= _rounded_down(least - error)[:, None]
    if scores.shape[1] > k and np.count_nonzero(reached) > _PLENTY * k * len(scores):
        # The true score of the k best is within one error of what they have, that of any other as well.
        kth = np.partition(scores, scores.shape[1] - k, axis=1)[:, scores.shape[1] - k]
        reached &= scores >= _rounded_down(kth - 2.0 * error)[:, None]
    return list_places(reached)


def _rounded_down(bounds: np.ndarray) -> np.ndarray:
    return np.nextafter(bounds.astype(np.float32), np.float32(-np.inf))


def _best(
    row: np.ndarray, column: np.ndarray, scores: np.ndarray, shape: tuple[int, ...], absent: int
) -> tuple[np.ndarray, np.ndarray]:
    """The best scores of each row and their columns, `shape` each, of pairs `[n]`."""
    best_scores, best_columns = np.full(shape, -np.inf), np.full(shape, absent)
    order = np.lexsort((column, -scores, row))
    row, column, scores = row[order], column[order], scores[order]
    place = np.arange(len(row)) - np.searchsorted(row, row, "left")
    kept = place < shape[1]
    best_scores[row[kept], place[kept]] = scores[kept]
    best_columns[row[kept], place[kept]] = column[kept]
    return best_scores, best_columns


def check_k(k: int, num_images: int, own: np.ndarray) -> None:
    """Refuses a k that a gallery of N images cannot give to each query.

    Raises:
        ValueError: It is no integer in [1, N], or in [1, N - 1] where a query is itself in the gallery.
    """
    inputs.check_integer(k, 1, "k")
    most = num_images - bool((own >= 0).any())
    if k > most:
        raise ValueError(
            f"`k` must be <= {most}, the number of images a query is compared with (itself not counted), "
            f"got {k}."
        )


def check_own(own: Optional[Own], num_queries: int, num_images: int) -> np.ndarray:
    """Returns which gallery image each query is, int64 `[Q]`; negative for none. See `NearestSearch.search`.

    Raises:
        ValueError: They are not Q integers below N.
    """
    if own is None:
        return np.full(num_queries, -1, np.int64)
    own = np.asarray(own)
    if own.shape != (num_queries,) or own.dtype.kind not in "iu" or own.max() >= num_images:
        raise ValueError(
            f"`own` must be {num_queries} integers below {num_images}, one for each query, got {own!r}."
        )
    return own.astype(np.int64)


def _checked(embeddings: Array, distance: str, argument: str) -> np.ndarray:
    embeddings = inputs.check_embeddings(embeddings, argument)
    if distance == "cosine":
        inputs.check_directions(embeddings, argument)
    return embeddings


def _unsorted(embeddings: np.ndarray, frame: Frame) -> Side:
    """A side of one class, whose positions are the images' indices."""
    return Side(embeddings, np.zeros(len(embeddings), np.int64), frame)


def _slices(size: int) -> list[slice]:
    return [slice(start, min(start + _TILE, size)) for start in range(0, size, _TILE)]
