import sys

import numpy as np
import pytest

from profs_tf import metrics


def test_says_how_to_install_faiss_where_it_is_missing(monkeypatch):
    # None makes the import fail, whether or not it is installed.
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ValueError, match=r"Install it by `pip install profs_tf\[faiss\]`"):
        metrics.FaissSearch(np.ones([2, 2]))


def test_refuses_an_unknown_distance():
    with pytest.raises(ValueError, match="`distance` must be one of euclidean, cosine"):
        metrics.FaissSearch(np.ones([2, 2]), distance="manhattan")


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_finds_what_the_exact_search_finds(distance):
    pytest.importorskip("faiss", reason="faiss is an extra")
    random = np.random.default_rng(0)
    gallery = random.standard_normal((500, 16)).astype(np.float32)
    queries = np.concatenate([gallery[:20], random.standard_normal((20, 16)).astype(np.float32)])
    own = np.r_[np.arange(20), np.full(20, -1)]
    exact = metrics.nearest(queries, gallery, 5, distance=distance, own=own)
    found = metrics.FaissSearch(gallery, distance=distance).search(queries, 5, own=own)
    np.testing.assert_array_equal(found[0], exact[0])
    np.testing.assert_allclose(found[1], exact[1], atol=1e-5)
    with pytest.raises(ValueError, match="`k` must be <= 499"):
        metrics.FaissSearch(gallery).search(queries, 500, own=own)
