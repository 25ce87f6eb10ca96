"""The k nearest gallery images of each query by faiss, where it is installed: `pip install profs_tf[faiss]`.

Shapes: Q queries, N gallery images, D embedding dimension.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Optional

import numpy as np

from profs_tf.metrics import arguments as inputs
from profs_tf.metrics.exact.embeddings import DISTANCES
from profs_tf.metrics.neighbors import Own, check_k, check_own
from profs_tf.utils.array_types import Array


class FaissSearch:
    """Searches as `NearestSearch`, by faiss's flat index.

    *Differs:* faiss computes in float32, so images whose distances float32 cannot distinguish may swap, and
    there is no tie rule for labels; it keeps a copy of the gallery, 4 N D bytes.

    Attributes:
        distance: "euclidean" or "cosine" (one minus the cosine).
    """

    def __init__(self, gallery: Array, *, distance: str = "euclidean") -> None:
        """Copies the gallery, float `[N, D]`, into an index of faiss.

        Raises:
            ValueError: If faiss is not installed, the gallery is not finite, or `distance` is unknown.
        """
        if distance not in DISTANCES:
            raise ValueError(f"`distance` must be one of {', '.join(DISTANCES)}, got {distance!r}.")
        faiss = _import_faiss()
        self.distance = distance
        gallery = self._prepare(gallery, "gallery")
        flat = faiss.IndexFlatIP if distance == "cosine" else faiss.IndexFlatL2
        self._index = flat(gallery.shape[1])
        self._index.add(gallery)

    def search(
        self, queries: Array, k: int, *, own: Optional[Own] = None, progress: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Finds each query's k nearest gallery images; see `NearestSearch.search`.

        `progress` shows nothing: faiss searches in one call.
        """
        queries = self._prepare(queries, "queries")
        if queries.shape[1] != self._index.d:
            raise ValueError(
                "`queries` must have the dimension of the gallery, "
                f"got {queries.shape[1]} and {self._index.d}."
            )
        own = check_own(own, len(queries), self._index.ntotal)
        check_k(k, self._index.ntotal, own)
        spare = int((own >= 0).any())
        found, indices = self._index.search(queries, int(k) + spare)
        if spare:
            # A stable sort puts the query itself last; in a row without it, the farthest image is last.
            order = np.argsort(indices == own[:, None], axis=1, kind="stable")[:, :k]
            found, indices = (np.take_along_axis(values, order, axis=1) for values in (found, indices))
        found = found.astype(np.float64)
        distances = 1.0 - found if self.distance == "cosine" else np.sqrt(np.maximum(found, 0.0))
        return indices.astype(np.int64), distances

    def _prepare(self, embeddings: Array, argument: str) -> np.ndarray:
        embeddings = inputs.check_embeddings(embeddings, argument)
        if self.distance == "cosine":
            inputs.check_directions(embeddings, argument)
            embeddings = embeddings / np.linalg.norm(embeddings.astype(np.float64), axis=1, keepdims=True)
        return np.ascontiguousarray(embeddings, np.float32)


def _import_faiss() -> ModuleType:
    try:
        return importlib.import_module("faiss")
    except ImportError as error:
        raise ValueError(
            "`search` must be exact where faiss is not installed, got faiss. "
            "Install it by `pip install profs_tf[faiss]`."
        ) from error
