import sys

import numpy as np
import pytest

from profs_tf.metrics import nearest
from profs_tf.search import approximate
from profs_tf.search.approximate import ApproximateSearch, import_faiss, train, write_faiss

RANDOM = np.random.default_rng(0)
EMBEDDINGS = RANDOM.standard_normal((400, 16)).astype(np.float32)


def test_says_how_to_install_faiss_where_it_is_missing(monkeypatch):
    # None makes the import fail, whether or not it is installed.
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ValueError, match=r"Install it by `pip install 'profs_tf\[faiss\]'`"):
        import_faiss()


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
@pytest.mark.parametrize("factory", ["Flat", "SQ8", "IVF1,Flat"])
def test_finds_what_the_exact_search_finds_also_among_added_rows(distance, factory):
    pytest.importorskip("faiss", reason="faiss is an extra")
    index = train(EMBEDDINGS[:300], np.arange(300), factory, distance, progress=False)
    removed = np.array([3, 5, 350, 399])
    search = ApproximateSearch(index, EMBEDDINGS, removed, distance)
    queries = np.concatenate([EMBEDDINGS[290:310], RANDOM.standard_normal((60, 16)).astype(np.float32)])
    own = np.r_[np.arange(290, 310), np.full(60, -1)]
    live = np.setdiff1d(np.arange(400), removed)
    own_live = np.where(own >= 0, np.searchsorted(live, own), -1)
    for k in (1, 5, 395):
        rows, distances = search.search(queries, k, own=own)
        expected = nearest(queries, EMBEDDINGS[live], k, distance=distance, own=own_live)
        np.testing.assert_array_equal(rows, live[expected[0]])
        np.testing.assert_allclose(distances, expected[1], atol=1e-6)


def test_a_query_with_too_few_candidates_is_searched_for_exactly():
    pytest.importorskip("faiss", reason="faiss is an extra")
    index = train(EMBEDDINGS, np.arange(400), "IVF40,Flat", "euclidean", progress=False)
    rows, _ = ApproximateSearch(index, EMBEDDINGS, np.zeros(0, int), "euclidean").search(EMBEDDINGS[:9], 50)
    np.testing.assert_array_equal(rows, nearest(EMBEDDINGS[:9], EMBEDDINGS, 50)[0])


@pytest.mark.parametrize(
    ("factory", "reason"),
    [
        ("IVF4096,Flat", "training points"),
        ("Guess9", ": could not parse"),
        ("IVF4,PQ5", "."),
        ("IDMap,Flat", ": add does not make sense"),
        # faiss itself would end the process, or fail later.
        ("HNSW1", "HNSW1 is too small"),
        ("IVF2_HNSW0,Flat", "HNSW0 is too small"),
        ("IVF0,Flat", "IVF0 is too small"),
    ],
)
def test_an_unsuitable_factory_is_refused(factory, reason):
    pytest.importorskip("faiss", reason="faiss is an extra")
    message = f"`faiss_factory` must suit 400 embeddings .* got '{factory}'.*{reason}"
    with pytest.raises(ValueError, match=message):
        train(EMBEDDINGS, np.arange(400), factory, "euclidean", progress=False)


def test_memory_does_not_grow_with_queries_times_neighbors(monkeypatch):
    pytest.importorskip("faiss", reason="faiss is an extra")
    index = train(EMBEDDINGS, np.arange(400), "Flat", "euclidean", progress=False)
    search = ApproximateSearch(index, EMBEDDINGS, np.zeros(0, int), "euclidean")
    expected = search.search(EMBEDDINGS[:9], 50)
    sizes, distances = [], search._distances
    monkeypatch.setattr(search, "_distances", lambda *args: sizes.append(args[1].size) or distances(*args))
    monkeypatch.setattr(approximate, "_BLOCK", 500)
    for found, wanted in zip(search.search(EMBEDDINGS[:9], 50), expected):
        np.testing.assert_array_equal(found, wanted)
    assert sizes == [400, 400, 400, 400, 200]


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path):
    pytest.importorskip("faiss", reason="faiss is an extra")
    index = train(EMBEDDINGS, np.arange(400), "Flat", "euclidean", progress=False)
    with pytest.raises(OSError, match="missing/x.index cannot be written"):
        write_faiss(index, tmp_path / "missing/x.index")
