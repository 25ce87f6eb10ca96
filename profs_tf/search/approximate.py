"""Approximate search by faiss, on disk: trained once, mapped into memory when it is opened.

faiss proposes candidates; float64 distances of the stored embeddings rank them, so that distances are exact,
and compressed codes cost little Recall. Rows that were appended after training are searched exactly.

Shapes: N rows, Q queries, D embedding dimension, m candidates.
"""

from __future__ import annotations

import functools
import importlib
import os
import re
from pathlib import Path
from types import ModuleType
from typing import Any, Optional

import numpy as np
from tqdm import tqdm

from profs_tf.metrics.neighbors import NearestSearch

# Candidates for each neighbor that is sought, and at least so many more.
_CANDIDATES = 4
_SPARE = 32
# Queries that are ranked together, at most.
_QUERIES = 64
# Rows that are added together, or of which distances are computed together, and of which at least faiss
# learns its clusters and codes; and rows a cluster.
_BLOCK = 65_536
_ROWS_PER_LIST = 64
# Sizes at which faiss ends the process: HNSW1, NSG0, IVF0.
_TOO_SMALL = re.compile(r"(?:HNSW|NSG)0*[01](?!\d)|IVF0+(?!\d)")


class ApproximateSearch:
    """Searches as `NearestSearch`, among candidates of a faiss index.

    *Differs:* finds most of the nearest images, not all; how many, `tune` measures.
    """

    def __init__(self, index: Any, embeddings: np.ndarray, removed: np.ndarray, distance: str) -> None:
        """Takes a trained index of the first rows of the embeddings.

        Args:
            index: faiss's; its L2 distance must have the order of `distance`.
            embeddings: float32 `[N, D]`, of these and of further rows.
            removed: Integer indices of rows that are never found.
            distance: "euclidean" or "cosine".
        """
        self._index, self._embeddings, self.distance = index, embeddings, distance
        self._is_removed = np.zeros(len(embeddings), bool)
        self._is_removed[removed] = True

    def search(
        self, queries: np.ndarray, k: int, *, own: Optional[np.ndarray] = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Finds neighbors of queries, float32 `[Q, D]`; see `NearestSearch.search`.

        A query for which faiss proposes fewer than k rows is searched for exactly.
        """
        own = np.full(len(queries), -1) if own is None else own
        asked = min(self._index.ntotal, max(_CANDIDATES * k, k + _SPARE))
        rows = max(1, min(_QUERIES, _BLOCK // asked))
        parts = [
            self._search(queries[start : start + rows], k, own[start : start + rows], asked)
            for start in range(0, len(queries), rows)
        ]
        rows, distances = (np.concatenate(pair) for pair in zip(*parts))
        return rows, distances

    def _search(
        self, queries: np.ndarray, k: int, own: np.ndarray, asked: int
    ) -> tuple[np.ndarray, np.ndarray]:
        candidates = self._index.search(prepared(queries, self.distance), asked)[1]
        if added := self._added(queries, k):
            candidates = np.concatenate([candidates, added[0] + self._index.ntotal], axis=1)
        is_valid = (candidates >= 0) & (candidates != own[:, None]) & ~self._is_removed[candidates]
        distances = self._distances(queries, candidates)
        distances[~is_valid] = np.inf
        order = np.lexsort((candidates, distances), axis=-1)[:, :k]
        rows, distances = (np.take_along_axis(values, order, axis=1) for values in (candidates, distances))
        lacking = np.flatnonzero(is_valid.sum(axis=1) < k)
        if len(lacking):
            exact = self._exact.search(queries[lacking], k, own=own[lacking])
            full = [np.empty([len(queries), k], values.dtype) for values in exact]
            enough = np.setdiff1d(np.arange(len(queries)), lacking)
            for values, found, approximate in zip(full, exact, (rows, distances)):
                values[lacking], values[enough] = found, approximate[enough]
            rows, distances = full
        return rows, distances

    def _added(self, queries: np.ndarray, k: int) -> Optional[tuple[np.ndarray, np.ndarray]]:
        """The nearest rows behind the faiss index, one more for the query itself; None without any."""
        live = int((~self._is_removed[self._index.ntotal :]).sum())
        return self._behind.search(queries, min(k + 1, live)) if live else None

    def _distances(self, queries: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """Distances float64 `[Q, m]`."""
        left, right = queries.astype(np.float64)[:, None], self._embeddings[candidates].astype(np.float64)
        if self.distance == "cosine":
            left = left / np.linalg.norm(left, axis=-1, keepdims=True)
            right /= np.linalg.norm(right, axis=-1, keepdims=True)
        right -= left
        distances_sq = np.einsum("qmd,qmd->qm", right, right)
        return distances_sq / 2 if self.distance == "cosine" else np.sqrt(distances_sq)

    @functools.cached_property
    def _exact(self) -> NearestSearch:
        removed = np.flatnonzero(self._is_removed)
        return NearestSearch(self._embeddings, distance=self.distance, removed=removed)

    @functools.cached_property
    def _behind(self) -> NearestSearch:
        first = self._index.ntotal
        removed = np.flatnonzero(self._is_removed[first:])
        return NearestSearch(self._embeddings[first:], distance=self.distance, removed=removed)


def prepared(embeddings: np.ndarray, distance: str) -> np.ndarray:
    """Returns float32 rows whose L2 distance has the order of `distance`."""
    if distance == "cosine":
        embeddings = embeddings / np.linalg.norm(embeddings.astype(np.float64), axis=1, keepdims=True)
    return np.ascontiguousarray(embeddings, np.float32)


def train(embeddings: np.ndarray, live: np.ndarray, factory: str, distance: str, progress: bool) -> Any:
    """Returns a faiss index of embeddings `[N, D]`, trained on some of the live rows.

    Raises:
        ValueError: If faiss is not installed, does not know `factory`, or N is too small for it.
    """
    faiss = import_faiss()
    try:
        if found := _TOO_SMALL.search(factory):
            raise RuntimeError(f"{found[0]} is too small")
        index = faiss.index_factory(embeddings.shape[1], factory)
        if not index.is_trained:
            ivf = faiss.try_extract_index_ivf(index)
            wanted = max(_BLOCK, _ROWS_PER_LIST * (ivf.nlist if ivf else 0))
            chosen = np.random.default_rng(0).choice(live, min(wanted, len(live)), replace=False)
            index.train(prepared(embeddings[np.sort(chosen)], distance))
        starts = range(0, len(embeddings), _BLOCK)
        for start in tqdm(starts, "faiss", unit=" blocks", disable=None if progress else True):
            index.add(prepared(embeddings[start : start + _BLOCK], distance))
    except (RuntimeError, AssertionError) as error:
        raise ValueError(
            f"`faiss_factory` must suit {len(live):,} embeddings of {embeddings.shape[1]} dimensions, got "
            f"{factory!r}: {_reason(error)}. Such as HNSW32, or IVF1024,SQ8 for a million."
        ) from error
    return index


def _reason(error: Exception) -> str:
    """Returns the reason of an error of faiss without the C++ function and line that raised it."""
    return re.split(r"Error: |failed: |\.cpp:\d+: ", " ".join(str(error).split()))[-1]


def parameter_values(index: Any) -> tuple[str, list[int]]:
    """Returns the parameter that trades time for Recall, and its values; "" and [0] if there is none."""
    faiss = import_faiss()
    ivf = faiss.try_extract_index_ivf(index)
    if ivf:
        return "nprobe", [2**power for power in range(int(ivf.nlist).bit_length())]
    inner = faiss.downcast_index(index)
    if isinstance(inner, faiss.IndexPreTransform):
        inner = faiss.downcast_index(inner.index)
    return ("efSearch", [2**power for power in range(4, 11)]) if hasattr(inner, "hnsw") else ("", [0])


def set_parameter(index: Any, name: str, value: int) -> None:
    """Sets nprobe or efSearch."""
    if name:
        import_faiss().ParameterSpace().set_index_parameter(index, name, value)


def write_faiss(index: Any, path: Path) -> None:
    """Writes a faiss index.

    Raises:
        OSError: If it cannot, for instance because the disk is full; nothing is left of it then.
    """
    try:
        import_faiss().write_index(index, str(path))
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    except (OSError, RuntimeError) as error:
        path.unlink(missing_ok=True)
        raise OSError(f"{path} cannot be written: {_reason(error)}") from error


def read_faiss(path: Path) -> Any:
    """Opens a faiss index, mapped into memory: by faiss 1.11 and later of every type, by older ones only IVF.

    Raises:
        ValueError: If faiss is not installed, or cannot read the file.
    """
    faiss = import_faiss()
    try:
        return faiss.read_index(str(path), getattr(faiss, "IO_FLAG_MMAP_IFC", faiss.IO_FLAG_MMAP))
    except RuntimeError as error:
        raise ValueError(
            f"`search` must be exact unless this version of faiss can read {path}, got faiss: "
            f"{_reason(error)}. Build it again by `faiss_factory`."
        ) from error


def import_faiss() -> ModuleType:
    """Imports faiss.

    Raises:
        ValueError: If it is not installed.
    """
    try:
        return importlib.import_module("faiss")
    except ImportError as error:
        raise ValueError(
            "`search` faiss and `faiss_factory` need faiss, which is not installed. "
            "Install it by `pip install 'profs_tf[faiss]'`."
        ) from error
