from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profs_tf import metrics
from profs_tf.metrics import neighbors as nearest_images
from profs_tf.metrics.exact import matmul


def brute_force(queries, gallery, k, distance, own):
    """Indices and distances from every pair's difference, one query after another."""
    queries, gallery = (np.asarray(part, np.float64) for part in (queries, gallery))
    if distance == "cosine":
        queries, gallery = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in (queries, gallery))
    indices, distances = [], []
    for query, itself in zip(queries, own):
        squares = ((query - gallery) ** 2).sum(axis=1)
        order = [int(i) for i in np.argsort(squares, kind="stable") if i != itself][:k]
        indices.append(order)
        distances.append(squares[order] / 2 if distance == "cosine" else np.sqrt(squares[order]))
    return np.array(indices), np.array(distances)


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_equals_brute_force_whatever_the_tiles(data):
    num_queries, size, dimension, tile = (
        data.draw(st.integers(1, most), name) for name, most in (("Q", 9), ("N", 30), ("D", 4), ("tile", 11))
    )
    seed = data.draw(st.integers(0, 2**32 - 1))
    random = np.random.default_rng(seed)
    # Few whole numbers: many exact ties, whose order must be the gallery's.
    gallery = random.integers(-2, 3, (size, dimension)).astype(np.float32)
    queries = random.integers(-2, 3, (num_queries, dimension)).astype(np.float32)
    own = random.integers(-1, size, num_queries)
    most = size - bool((own >= 0).any())
    if most < 1:
        return
    k = data.draw(st.integers(1, most))
    with mock.patch.object(matmul, "BLOCK", tile):
        indices, distances = metrics.nearest(queries, gallery, k, own=own)
    expected = brute_force(queries, gallery, k, "euclidean", own)
    np.testing.assert_array_equal(indices, expected[0])
    np.testing.assert_allclose(distances, expected[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
@pytest.mark.parametrize("backend", ["numpy", "tensorflow"])
@pytest.mark.parametrize("spread", [1.0, 1e-5])
def test_equals_brute_force_on_several_real_tiles(distance, backend, spread):
    # With little spread around a far point, float32 alone cannot tell the images apart.
    random = np.random.default_rng(0)
    gallery = 3 + spread * random.standard_normal((4500, 24))
    own = np.arange(0, 4500, 90)
    found = metrics.nearest(gallery[own], gallery, 7, distance=distance, own=own, backend=backend)
    expected = brute_force(gallery[own], gallery, 7, distance, own)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-6, atol=1e-15)


def test_equal_images_come_in_order_and_at_distance_zero():
    gallery = np.repeat(np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32), 1000, axis=0)
    indices, distances = metrics.nearest(gallery[[1500, 0]], gallery, 4, own=[1001, -1])
    np.testing.assert_array_equal(indices, [[1000, 1002, 1003, 1004], [0, 1, 2, 3]])
    np.testing.assert_array_equal(distances, np.zeros([2, 4]))


def test_a_query_far_outside_the_gallery_is_still_ranked():
    gallery = np.array([[0.0], [1e-6], [-1e-6]])
    indices, distances = metrics.nearest(np.array([[1e30], [-1e30], [2e-6]]), gallery, 1)
    assert indices[2, 0] == 1
    np.testing.assert_allclose(distances[:2, 0], 1e30)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(3, 11), st.booleans(), st.sampled_from(["euclidean", "cosine"]))
def test_with_labels_ties_rank_as_in_recall(seed, tile, with_gallery, distance):
    random = np.random.default_rng(seed)
    # Few whole numbers: many exact ties.
    embeddings = random.integers(1, 4, (25, 2)).astype(np.float32)
    labels = random.integers(4, size=25)
    others = {}
    if with_gallery:
        others = {
            "gallery_embeddings": random.integers(1, 4, (30, 2)).astype(np.float32),
            "gallery_labels": random.integers(4, size=30),
        }
    gallery = others.get("gallery_embeddings", embeddings)
    gallery_labels = others.get("gallery_labels", labels)
    own = None if with_gallery else np.arange(25)
    k = 30 if with_gallery else 24
    with mock.patch.object(matmul, "BLOCK", tile):
        indices, distances = metrics.nearest(
            embeddings, gallery, k, distance=distance, own=own, labels=labels, gallery_labels=gallery_labels
        )
    found = metrics.evaluate_retrieval(embeddings, labels, distance=distance, **others)
    positive = gallery_labels[indices] == labels[:, None]
    first = np.where(positive.any(axis=1), positive.argmax(axis=1) + 1, 0)
    np.testing.assert_array_equal(first, found.ranks)
    # The same images at the same distances as without labels, but for the order of ties.
    _, without = metrics.nearest(embeddings, gallery, k, distance=distance, own=own)
    np.testing.assert_allclose(distances, without, atol=1e-6)


def test_labels_are_given_for_both_or_neither():
    embeddings = np.eye(3)
    for labels in ({"labels": [0, 1, 2]}, {"gallery_labels": [0, 1, 2]}):
        with pytest.raises(ValueError, match="`labels` and `gallery_labels` must be given together, got one"):
            metrics.nearest(embeddings, embeddings, 1, **labels)
    with pytest.raises(ValueError, match="`labels` must be as many as `queries`, got 2 labels for 3"):
        metrics.nearest(embeddings, embeddings, 1, labels=[0, 1], gallery_labels=[0, 1, 2])


def test_agrees_with_the_ranks_of_recall():
    random = np.random.default_rng(0)
    labels = random.integers(20, size=300)
    embeddings = (random.standard_normal((20, 6))[labels] + random.standard_normal((300, 6))).astype(
        np.float32
    )
    indices, _ = metrics.nearest(embeddings, embeddings, 8, own=np.arange(300))
    hits = (labels[indices] == labels[:, None]).any(axis=1)
    expected = metrics.evaluate_retrieval(embeddings, labels)
    np.testing.assert_array_equal(hits, expected.hits_at(8))


def test_one_search_serves_many_queries_alike():
    random = np.random.default_rng(0)
    gallery, queries = random.standard_normal((50, 5)), random.standard_normal((6, 5))
    search = metrics.NearestSearch(gallery)
    together = search.search(queries, 3)
    for number, query in enumerate(queries):
        alone = search.search(query[None], 3)
        np.testing.assert_array_equal(together[0][number], alone[0][0])
        np.testing.assert_array_equal(together[1][number], alone[1][0])


def test_blocks_are_kept_only_of_a_small_gallery():
    random = np.random.default_rng(0)
    gallery, queries = random.standard_normal((70, 5)), random.standard_normal((6, 5))
    found = []
    for kept in (nearest_images._KEPT_BYTES, 0):
        with (
            mock.patch.object(matmul, "BLOCK", 16),
            mock.patch.object(nearest_images, "_KEPT_BYTES", kept),
        ):
            search = metrics.NearestSearch(gallery)
            found += [search.search(queries, 3), search.search(queries, 3)]
            assert bool(search._factors) == bool(kept)
    for indices, distances in found[1:]:
        np.testing.assert_array_equal(indices, found[0][0])
        np.testing.assert_array_equal(distances, found[0][1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 0}, "`k` must be a whole number >= 1, got 0"),
        ({"k": 5}, "`k` must be <= 4, the number of images a query is compared with"),
        ({"k": 4, "own": [0, -1]}, "`k` must be <= 3"),
        ({"own": [0]}, "`own` must be 2 integers below 4"),
        ({"own": [0, 4]}, "`own` must be 2 integers below 4"),
        ({"queries": np.ones([2, 2])}, "`queries` must have the dimension of the gallery, got 2 and 3"),
        ({"queries": np.full([2, 3], np.nan)}, "`queries` must be finite"),
        ({"gallery": np.zeros([4, 3]), "distance": "cosine"}, "`gallery` must not be all-zero"),
        ({"distance": "manhattan"}, "`distance` must be one of euclidean, cosine, got 'manhattan'"),
    ],
)
def test_refuses_what_it_cannot_search(change, message):
    arguments = {"queries": np.ones([2, 3]), "gallery": np.ones([4, 3]), "k": 1, **change}
    with pytest.raises(ValueError, match=message):
        metrics.nearest(**arguments)


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_removed_images_are_never_found(distance, monkeypatch):
    monkeypatch.setattr(matmul, "BLOCK", 16)
    random = np.random.default_rng(0)
    gallery = random.standard_normal((60, 5)).astype(np.float32)
    # All but one of the first tile.
    removed = np.r_[np.arange(15), 40, 59]
    live = np.setdiff1d(np.arange(60), removed)
    search = metrics.NearestSearch(gallery, distance=distance, removed=removed)
    for k in (1, 7, 43):
        indices, distances = search.search(gallery[:20], k)
        expected = metrics.nearest(gallery[:20], gallery[live], k, distance=distance)
        np.testing.assert_array_equal(indices, live[expected[0]])
        np.testing.assert_allclose(distances, expected[1], atol=1e-7)
    with pytest.raises(ValueError, match="`k` must be <= 43"):
        search.search(gallery[:1], 44)
