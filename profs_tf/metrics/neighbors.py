"""The k nearest gallery images of each query: exact, by blocks of bounded memory.

Shapes: Q queries, N gallery images, D embedding dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional, Union

import numpy as np

from profs_tf.metrics import arguments as inputs
from profs_tf.metrics.exact.embeddings import Centering, EmbeddingSet, fit_centering, mirrored, score_error
from profs_tf.metrics.exact.matmul import Prepared, block_slices, open_product
from profs_tf.metrics.exact.top_k import PairScores, TopK, list_candidates
from profs_tf.utils.array_types import Array, Labels
from profs_tf.utils.checks import check_count
from profs_tf.utils.progress import Progress
from profs_tf.utils.threads import in_threads

# The largest value of a query in the gallery's centering; beyond, float32 squares might overflow.
_LARGEST_QUERY = 2.0**20

# Bytes of float32 blocks that are kept from search to search: making them is most of a single query's work.
_KEPT_BYTES = 1 << 29

Own = Union[Array, Sequence[int]]
"""The gallery image that each query itself is, `[Q]`: see `NearestSearch.search`."""


class NearestSearch:
    """Searches one gallery many times: what depends on the gallery alone is computed once.

    Attributes:
        distance: "euclidean" or "cosine" (one minus the cosine).
    """

    def __init__(
        self,
        gallery: Array,
        *,
        labels: Optional[Labels] = None,
        distance: str = "euclidean",
        backend: str = "auto",
        removed: Optional[Own] = None,
    ) -> None:
        """Prepares the gallery; it is not copied, and may be a memory map.

        Args:
            gallery: Float `[N, D]`, NumPy or TensorFlow.
            labels: `[N]`, integers or strings; None if `search` gets no labels either.
            distance: "euclidean" or "cosine".
            backend: As for `evaluate_retrieval`.
            removed: Integer indices of gallery images that are never found. None: none.

        Raises:
            ValueError: As `evaluate_retrieval` for a gallery.

        O(N D) time; 24 N bytes of memory, and from the first search on 4 N D if that is at most 512 MB.
        """
        self.distance, self._backend = distance, backend
        self._gallery = _check(gallery, distance, "gallery")
        self._labels = None
        if labels is not None:
            self._labels = inputs.check_labels(labels, len(self._gallery), "gallery_labels", "gallery")
        self._centering = fit_centering(distance, self._gallery)
        self._set = _unsorted(self._gallery, self._centering)
        self._is_removed = np.zeros(len(self._gallery), bool)
        if removed is not None:
            self._is_removed[np.asarray(removed, np.int64)] = True
        self._num_live = len(self._gallery) - int(self._is_removed.sum())
        self._factors: dict[tuple[int, int], np.ndarray] = {}

    def search(
        self,
        queries: Array,
        k: int,
        *,
        own: Optional[Own] = None,
        labels: Optional[Labels] = None,
        progress: bool = False,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Finds each query's k nearest gallery images, the nearest first.

        Float32 products decide beyond their error bound, and float64 differences the rest. So the result does
        not depend on backend, threads or the other queries. Images at the same distance are in the gallery's
        order; with labels, negatives come first as in Recall@K (`metrics/exact/ties.py`).

        Args:
            queries: Float `[Q, D]`, NumPy or TensorFlow.
            k: The number of images.
            own: Integer `[Q]`, the gallery image that each query itself is, which is left out; negative for
                queries that are not in the gallery. None: no query is.
            labels: `[Q]`, integers or strings, if the gallery has labels.
            progress: Show progress on standard error.

        Returns:
            Indices int64 `[Q, k]` and distances float64 `[Q, k]`. O(Q N D) time; memory above gallery and
            result: about 4 Q D bytes and some 100 MB per thread, 200 MB if most images are equal.

        Raises:
            ValueError: If queries are not finite, their D differs, k is out of range, `own` is no index of
                the gallery, or only one of queries and gallery has labels.
        """
        queries = _check(queries, self.distance, "queries")
        if queries.shape[1] != self._gallery.shape[1]:
            raise ValueError(
                "`queries` must have the dimension of the gallery, "
                f"got {queries.shape[1]} and {self._gallery.shape[1]}."
            )
        own = check_own(own, len(queries), len(self._gallery))
        check_k(k, self._num_live, own)
        classes = self._classes(labels, len(queries))
        centering, gallery = self._centering, self._set
        if self._is_far(queries):
            centering = fit_centering(self.distance, self._gallery, queries)
            gallery = _unsorted(self._gallery, centering)
        pairs = PairScores(queries, self._gallery, centering, classes)
        tops = self._tops(_unsorted(queries, centering), gallery, pairs, int(k), own, progress)
        indices = np.concatenate([top.indices for top in tops])
        scores = np.concatenate([top.scores for top in tops])
        if classes is not None:
            # Without what negatives were raised by.
            rows = np.repeat(np.arange(len(queries)), k)
            scores = pairs.distances(rows, indices.ravel()).reshape(indices.shape)
        # Adding 0 turns -0 into 0.
        halves = -scores / centering.scale**2 + 0.0
        return indices, halves if self.distance == "cosine" else np.sqrt(2.0 * halves)

    def _classes(self, labels: Optional[Labels], num_queries: int) -> Optional[tuple[np.ndarray, np.ndarray]]:
        """Class numbers of queries and gallery, int64 `[Q]` and `[N]`; None without labels."""
        if (labels is None) != (self._labels is None):
            raise ValueError("`labels` and `gallery_labels` must be given together, got one of them.")
        if labels is None:
            return None
        return inputs.class_numbers(inputs.check_labels(labels, num_queries, of="queries"), self._labels)

    def _is_far(self, queries: np.ndarray) -> bool:
        if self.distance == "cosine":
            return False
        largest = max(float(queries.max()), -float(queries.min())) * self._centering.scale
        return largest + np.abs(self._centering.center).max() > _LARGEST_QUERY

    def _factor(self, gallery: EmbeddingSet, block: slice) -> np.ndarray:
        """A block of the gallery as the right factor of products."""
        if gallery is not self._set or 4 * len(gallery) * gallery.width > _KEPT_BYTES:
            return mirrored(gallery.float32_block(block))
        key = block.start, block.stop
        if key not in self._factors:
            self._factors[key] = mirrored(gallery.float32_block(block))
        return self._factors[key]

    def _tops(
        self,
        queries: EmbeddingSet,
        gallery: EmbeddingSet,
        pairs: PairScores,
        k: int,
        own: np.ndarray,
        progress: bool,
    ) -> list[TopK]:
        rows, columns = block_slices(len(queries)), block_slices(len(gallery))
        bar = Progress("nearest", len(rows) * len(columns), progress)
        tops = []
        with bar, open_product(self._backend, 2.0 * len(queries) * len(gallery) * queries.width) as product:
            for part in rows:
                left = product.prepare(queries.float32_block(part))
                top = TopK(part.stop - part.start, k, len(gallery))

                def search_block(
                    block: slice, part: slice = part, left: Prepared = left, top: TopK = top
                ) -> TopK:
                    scores = product(left, product.prepare(self._factor(gallery, block)))
                    is_removed = self._is_removed[block]
                    if is_removed.any():
                        scores = np.where(is_removed, np.float32(-np.inf), scores)
                    error = score_error(queries, gallery, part, block)
                    sought = k + bool((own[part] >= 0).any())
                    row, column = list_candidates(scores, error, sought, top.least)
                    column = column + block.start
                    others = (own[part][row] != column) & ~self._is_removed[column]
                    row, column = row[others], column[others]
                    found = TopK(len(scores), k, len(gallery))
                    ranked = pairs.ranked(queries, gallery, row + part.start, column)
                    found.fill(row, *ranked, column)
                    return found

                for found in in_threads(search_block, columns):
                    top.merge(found)
                    bar.advance()
                tops.append(top)
        return tops


def nearest(
    queries: Array,
    gallery: Array,
    k: int,
    *,
    distance: str = "euclidean",
    own: Optional[Own] = None,
    labels: Optional[Labels] = None,
    gallery_labels: Optional[Labels] = None,
    backend: str = "auto",
    progress: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Finds each query's k nearest gallery images once; see `NearestSearch`, also for arguments and errors.

    Returns:
        Indices int64 `[Q, k]` and distances float64 `[Q, k]`.
    """
    search = NearestSearch(gallery, labels=gallery_labels, distance=distance, backend=backend)
    return search.search(queries, k, own=own, labels=labels, progress=progress)


def check_k(k: int, num_images: int, own: np.ndarray) -> None:
    """Checks that a gallery of N images has k images for each query.

    Raises:
        ValueError: If k is no integer in [1, N], or in [1, N - 1] if a query is itself in the gallery.
    """
    check_count("k", k)
    most = num_images - bool((own >= 0).any())
    if k > most:
        raise ValueError(
            f"`k` must be <= {most}, the number of images a query is compared with (except itself), got {k}."
        )


def check_own(own: Optional[Own], num_queries: int, num_images: int) -> np.ndarray:
    """Returns which gallery image each query is, int64 `[Q]`; negative for none. See `NearestSearch.search`.

    Raises:
        ValueError: If they are not Q integers below N.
    """
    if own is None:
        return np.full(num_queries, -1, np.int64)
    own = np.asarray(own)
    if own.shape != (num_queries,) or own.dtype.kind not in "iu" or own.max() >= num_images:
        raise ValueError(
            f"`own` must be {num_queries} integers below {num_images}, one for each query, got {own!r}."
        )
    return own.astype(np.int64)


def _check(embeddings: Array, distance: str, argument: str) -> np.ndarray:
    embeddings = inputs.check_embeddings(embeddings, argument)
    if distance == "cosine":
        inputs.check_directions(embeddings, argument)
    return embeddings


def _unsorted(embeddings: np.ndarray, centering: Centering) -> EmbeddingSet:
    """A set of one class, whose positions are the images' indices."""
    return EmbeddingSet(embeddings, np.zeros(len(embeddings), np.int64), centering)
