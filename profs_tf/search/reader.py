"""Reads a finished index: what it holds, and what is near a query.

Shapes: N images in the index, Q queries, D embedding dimension.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Sequence
from typing import Optional, Union

import numpy as np

from profs_tf.metrics.neighbors import check_k
from profs_tf.search.changes import open_embedder
from profs_tf.search.queries import Queries, Query, check_files, embed_queries, list_queries
from profs_tf.search.searcher import Neighbor, Searcher
from profs_tf.search.source import UNKNOWN, find_path, positions_by_path, size_and_mtime
from profs_tf.search.storage import IndexFolder
from profs_tf.serving.loaded import SavedEmbedder


class IndexReader:
    """A finished index. Embeddings are mapped into memory, not copied.

    Attributes:
        path: Its folder.
        root: The indexed folder, absolute; "" for a data set in memory.
        names: Tuple of N names, as `Neighbor.name`.
        class_names: Tuple of N, or None.
        embedding_dim: D.
        normalized: Whether all embeddings have length 1.
        unreadable: List of (name, reason) of the skipped pictures.
        faiss_factory: What `build_faiss` was called with, or None if there is no faiss index.
        embedder: Path of the SavedModel when the index was built.
        embedder_sha256: Hash of its weights and preprocessing, see `SavedEmbedder`.
    """

    def __init__(self, path: Union[str, os.PathLike]) -> None:
        """Opens an index; see `load`."""
        self._folder = IndexFolder(path)
        self.path = str(self._folder.path)
        self._embedders: dict[str, SavedEmbedder] = {}
        self._open()

    def _open(self) -> None:
        opened = self._folder.open()
        self._manifest, self._pictures, table = opened.manifest, opened.pictures, opened.table
        self.root, self.embedder = self._manifest["root"], self._manifest["embedder"]
        self.embedder_sha256 = self._manifest["embedder_sha256"]
        self.normalized, self.embedding_dim = self._manifest["normalized"], self._manifest["embedding_dim"]
        self.faiss_factory = self._manifest.get("faiss_options", {}).get("factory")
        self._searcher = Searcher(self._folder, opened)
        self.names, self.class_names = self._searcher.names, self._searcher.class_names
        self.unreadable = [tuple(pair) for pair in table.unreadable]
        self._stamps = [(table.sizes[row], table.mtimes_ns[row]) for row in self._searcher.rows]
        self.__dict__.pop("_positions", None)

    @property
    def embeddings(self) -> np.ndarray:
        """Float32 `[N, D]`, read-only: mapped into memory, or a copy once images were removed."""
        return self._searcher.embeddings

    def __len__(self) -> int:
        return len(self.names)

    def query(
        self,
        queries: Queries,
        k: int = 8,
        *,
        embedder: Optional[Union[str, os.PathLike]] = None,
        distance: str = "euclidean",
        search: str = "exact",
        exclude_self: bool = True,
    ) -> list[list[Neighbor]]:
        """Finds the images nearest to other images, or to embeddings.

        Args:
            queries: One query or many, of any kind: the path of an image file, the bytes of one, an image of
                Pillow, a uint8 `[H, W, 3]` array, or an embedding, float `[D]`. Also uint8 `[Q, H, W, 3]` or
                float `[Q, D]`.
            k: Neighbors of each query.
            embedder: Folder of the SavedModel; None: the path at which it was when the index was built.
                Loaded once; not needed for embeddings.
            distance: "euclidean" or "cosine".
            search: "exact"; or "faiss", approximate, after `build_faiss`.
            exclude_self: Whether a file that is in the index is excluded from its own neighbors.

        Returns:
            A list of Q lists, also for one query, of k `Neighbor`, the nearest first. O(N D) time a query.

        Raises:
            ValueError: If the embedder is not the index's, there are no queries, an array is neither image
                nor embedding, or k is out of range.
            TypeError: If a query is neither path, bytes, image nor array.
            UnreadableImageError: If an image cannot be read; the message names it.
        """
        listed = list_queries(queries)
        check_files(listed)
        own = np.array([self.position_of(query) if exclude_self else -1 for query in listed])
        check_k(k, len(self), own)
        model = functools.partial(self._checked_embedder, embedder)
        embeddings = embed_queries(listed, model, self.embedding_dim)
        return self._searcher.neighbors(embeddings, k, own, distance, search)

    def query_indexed(
        self,
        positions: Union[np.ndarray, Sequence[int]],
        k: int = 8,
        *,
        distance: str = "euclidean",
        search: str = "exact",
        exclude_self: bool = True,
    ) -> list[list[Neighbor]]:
        """Finds the images nearest to indexed images.

        Args:
            positions: Q indices of indexed images.
            k: As for `query`, like the other arguments and the result.
            distance: Likewise.
            search: Likewise.
            exclude_self: Whether each image is excluded from its own neighbors.
        """
        positions = np.asarray(positions)
        if positions.ndim != 1 or not len(positions) or positions.dtype.kind not in "iu":
            raise ValueError(f"`positions` must be a flat sequence of integers, got {positions!r}.")
        if positions.min() < 0 or positions.max() >= len(self):
            raise ValueError(
                f"`positions` must be in 0..{len(self) - 1}, got values from {positions.min()} to "
                f"{positions.max()}."
            )
        own = positions if exclude_self else np.full_like(positions, -1, np.int64)
        embeddings = self._searcher.embeddings_at(positions)
        return self._searcher.neighbors(embeddings, k, own, distance, search)

    def picture(self, position: int) -> Union[str, np.ndarray]:
        """Returns the path of an indexed picture, or for a data set in memory its uint8 `[H, W, 3]`."""
        if self._pictures is not None:
            return self._pictures[self._searcher.rows[position]]
        return os.path.join(self.root, self.names[position])

    def position_of(self, picture: Query) -> int:
        """Returns the position of a picture file in the index, or -1 if it is not indexed, or no path."""
        return find_path(self._positions, picture) if isinstance(picture, (str, os.PathLike)) else -1

    def changed(self, positions: Iterable[int]) -> list[str]:
        """Returns the names of those images whose file has changed since it was embedded."""
        if self._pictures is not None:
            return []
        unique = dict.fromkeys(positions)
        return [
            self.names[i]
            for i in unique
            if self._stamps[i] != UNKNOWN and size_and_mtime(str(self.picture(i))) != self._stamps[i]
        ]

    @functools.cached_property
    def _positions(self) -> dict[str, int]:
        return {} if self._pictures is not None else positions_by_path(self.root, self.names)

    def _checked_embedder(self, path: Optional[Union[str, os.PathLike]]) -> SavedEmbedder:
        key = os.fspath(path or self.embedder)
        if key not in self._embedders:
            self._embedders[key] = open_embedder(self._manifest, self.path, key)
        return self._embedders[key]
