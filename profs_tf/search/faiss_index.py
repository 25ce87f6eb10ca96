"""The faiss index of an image index: built with a measured Recall, and bound to the embeddings it is of.

Shapes: N rows, Q queries, D embedding dimension.
"""

from __future__ import annotations

import os
import time
from typing import NamedTuple, Union

import numpy as np

from profs_tf.metrics.exact.embeddings import DISTANCES
from profs_tf.metrics.neighbors import NearestSearch
from profs_tf.search.approximate import (
    ApproximateSearch,
    parameter_values,
    read_faiss,
    set_parameter,
    train,
    write_faiss,
)
from profs_tf.search.checked_files import check_file, damaged, rows_checksum
from profs_tf.search.storage import IndexFolder, OpenedIndex
from profs_tf.search.writing import store_faiss
from profs_tf.utils.checks import check_count, check_one_of

# Recall@K is measured for this K.
_K = 10
# Queries that are timed one by one.
_TIMED = 20


class FaissReport(NamedTuple):
    """What was measured when a faiss index was built.

    Attributes:
        factory: As faiss's `index_factory` takes it.
        parameter: The setting that reaches the wanted Recall, such as "nprobe=8"; "" if there is none.
        k: Neighbors that Recall is of.
        recall: The part of the exact search's k nearest images that were found, mean of the queries.
        wanted: The Recall that was asked for; a smaller `recall` means that no setting reaches it.
        num_queries: How many indexed images were searched for.
        seconds: Of one query, median.
        exact_seconds: Of one query by the exact search, median.
        megabytes: Size of the file.
    """

    factory: str
    parameter: str
    k: int
    recall: float
    wanted: float
    num_queries: int
    seconds: float
    exact_seconds: float
    megabytes: float

    def __str__(self) -> str:
        setting = f" at {self.parameter}" if self.parameter else ""
        return (
            f"{self.factory}: Recall@{self.k} {self.recall:.1%} of {self.num_queries:,} queries against the "
            f"exact search{setting}; a query takes {1e3 * self.seconds:.2f} ms, exactly "
            f"{1e3 * self.exact_seconds:.1f} ms; {self.megabytes:,.1f} MB"
            + (
                f". No setting reaches {self.wanted:.1%}: choose finer codes, such as SQ8 or Flat"
                if self.recall < self.wanted
                else ""
            )
        )


def build_faiss(
    path: Union[str, os.PathLike],
    factory: str,
    *,
    distance: str = "euclidean",
    recall: float = 0.95,
    recall_sample: int = 1000,
    progress: bool = False,
) -> FaissReport:
    """Trains a faiss index of an image index and stores it there; see `ImageIndex.build_faiss`."""
    if not 0 < recall <= 1:
        raise ValueError(f"`recall` must be in (0, 1], got {recall}.")
    check_count("recall_sample", recall_sample, "Choose another number.")
    check_one_of("distance", distance, DISTANCES)
    if not isinstance(factory, str):
        raise ValueError(f"`factory` must be a text such as 'HNSW32', got {factory!r}.")
    folder = IndexFolder(path)
    with folder.changing() as opened:
        embeddings, live = opened.embeddings, opened.table.live_rows()
        if len(live) < 2:
            raise ValueError("`index` must hold two images at least, got one.")
        space = _space(opened, distance)
        removed = np.array(sorted(opened.table.removed), np.int64)
        # First: it refuses embeddings that have no such distance.
        exact = NearestSearch(embeddings, distance=distance, removed=removed)
        index = train(embeddings, live, factory, space, progress)
        search = ApproximateSearch(index, embeddings, removed, distance)
        sample = np.random.default_rng(1).choice(live, min(recall_sample, len(live)), replace=False)
        k = min(_K, len(live) - 1)
        _, expected = exact.search(embeddings[sample], k, own=sample)
        name, values = parameter_values(index)
        for value in values:
            set_parameter(index, name, value)
            _, found = search.search(embeddings[sample], k, own=sample)
            # By distance: of images at the same distance, any is right.
            reached = float((found <= expected[:, -1:] * (1 + 1e-9)).mean())
            if reached >= recall:
                break
        timed = sample[:_TIMED]
        seconds, exact_seconds = (_seconds(kind, embeddings, timed, k) for kind in (search, exact))
        options = {
            "factory": factory,
            "distance": space,
            "parameter": name,
            "value": value,
            "recall": reached,
        }
        file = store_faiss(folder, opened, lambda file: write_faiss(index, file), options)
    setting = f"{name}={value}" if name else ""
    megabytes = file.stat().st_size / 1e6
    return FaissReport(factory, setting, k, reached, recall, len(sample), seconds, exact_seconds, megabytes)


def open_search(folder: IndexFolder, opened: OpenedIndex, distance: str) -> ApproximateSearch:
    """Opens the faiss index of an image index, after a check of its checksum.

    Raises:
        ValueError: If there is none of these embeddings or for this distance, it is damaged, or faiss is not
            installed.
    """
    manifest, rows = opened.manifest, len(opened.table.names)
    if "faiss" not in manifest:
        raise ValueError(
            f"`search` must be exact unless {folder.path} has a faiss index, got faiss. "
            "Build one by `faiss_factory=HNSW32`, in Python by `index.build_faiss`."
        )
    options, path = manifest["faiss_options"], folder.path / manifest["faiss"]
    if options["distance"] != _space(opened, distance):
        raise ValueError(
            f"`distance` must be {options['distance']}, that of the faiss index, got {distance}. "
            f"Build it again by `faiss_factory={options['factory']}`, or search exactly."
        )
    cure = f"Build it again by `faiss_factory={options['factory']}`."
    checksum = manifest["checksums"]["embeddings"]
    if options["rows"] < rows:
        checksum = rows_checksum(folder.path / manifest["embeddings"], options["rows"])
    if checksum != options["embeddings_checksum"]:
        raise damaged(path, "it is of other embeddings", cure)
    check_file(path, manifest["checksums"].get("faiss"), cure=cure)
    index = read_faiss(path)
    set_parameter(index, options["parameter"], options["value"])
    removed = np.array(sorted(opened.table.removed), np.int64)
    return ApproximateSearch(index, opened.embeddings, removed, distance)


def _space(opened: OpenedIndex, distance: str) -> str:
    """The distance whose order faiss must have; embeddings of length 1 have one order for both."""
    return "euclidean" if opened.manifest["normalized"] else distance


def _seconds(
    search: Union[ApproximateSearch, NearestSearch], embeddings: np.ndarray, rows: np.ndarray, k: int
) -> float:
    times = []
    for row in rows:
        start = time.perf_counter()
        search.search(np.array(embeddings[row : row + 1]), k, own=np.array([row]))
        times.append(time.perf_counter() - start)
    return float(np.median(times))
