"""Searches an opened index, by each of its methods, and names what was found.

Shapes: n images in the index, Q queries, D embedding dimension.
"""

from __future__ import annotations

import functools
from typing import NamedTuple, Optional, Union

import numpy as np

from profs_tf.metrics.exact.embeddings import DISTANCES
from profs_tf.metrics.neighbors import NearestSearch, check_k
from profs_tf.search.approximate import ApproximateSearch
from profs_tf.search.faiss_index import open_search
from profs_tf.search.storage import IndexFolder, OpenedIndex
from profs_tf.utils.checks import check_one_of

SEARCHES = ("exact", "faiss")


class Neighbor(NamedTuple):
    """An indexed image near a query.

    Attributes:
        name: Its path relative to the indexed folder, or its name in the data set.
        distance: From the query.
        position: Its index among the indexed images.
        class_name: Its class, or None if the index has no classes.
    """

    name: str
    distance: float
    position: int
    class_name: Optional[str]


class Searcher:
    """The images of an opened index that are not removed, by their positions.

    Attributes:
        rows: int64 `[n]`, where each image is in the table and among the embeddings.
        names: Tuple of n names.
        class_names: Tuple of n, or None.
    """

    def __init__(self, folder: IndexFolder, opened: OpenedIndex) -> None:
        """Takes the index; a search method is prepared when it is first used."""
        self._folder, self._opened = folder, opened
        self.rows = opened.table.live_rows()
        names, classes = opened.table.names, opened.table.classes
        self.names = tuple(names[row] for row in self.rows)
        self.class_names = None if classes is None else tuple(classes[row] for row in self.rows)
        self._searches: dict[tuple[str, str], Union[NearestSearch, ApproximateSearch]] = {}

    @functools.cached_property
    def embeddings(self) -> np.ndarray:
        """Float32 `[n, D]`, read-only: mapped into memory, or a copy if images were removed."""
        embeddings = self._opened.embeddings
        if len(self.rows) < len(embeddings):
            embeddings = embeddings[self.rows]
            embeddings.setflags(write=False)
        return embeddings

    def embeddings_at(self, positions: np.ndarray) -> np.ndarray:
        """Embeddings of some images, float32 `[Q, D]`."""
        return np.asarray(self._opened.embeddings[self.rows[positions]])

    def neighbors(
        self, queries: np.ndarray, k: int, own: np.ndarray, distance: str, search: str
    ) -> list[list[Neighbor]]:
        """Finds the k nearest images of each query, float32 `[Q, D]`.

        Args:
            queries: The embeddings.
            k: As for `ImageIndex.query`, like `distance` and `search`.
            own: int64 `[Q]`, the position of the query itself, or -1.
            distance: Likewise.
            search: Likewise.
        """
        check_k(k, len(self.rows), own)
        own_rows = np.where(own >= 0, self.rows[own], -1)
        rows, distances = self._search(search, distance).search(queries, k, own=own_rows)
        positions, classes = np.searchsorted(self.rows, rows), self.class_names
        return [
            [
                Neighbor(self.names[i], value, i, None if classes is None else classes[i])
                for i, value in zip(*row)
            ]
            for row in zip(positions.tolist(), distances.tolist())
        ]

    def _search(self, search: str, distance: str) -> Union[NearestSearch, ApproximateSearch]:
        check_one_of("search", search, SEARCHES)
        check_one_of("distance", distance, DISTANCES)
        key = search, distance
        if key not in self._searches and search == "exact":
            removed = np.array(sorted(self._opened.table.removed), np.int64)
            embeddings = self._opened.embeddings
            self._searches[key] = NearestSearch(embeddings, distance=distance, removed=removed)
        elif key not in self._searches:
            self._searches[key] = open_search(self._folder, self._opened, distance)
        return self._searches[key]
