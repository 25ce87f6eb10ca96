import collections

import numpy as np
import pytest

from profs_tf.visual.gallery_content import find_neighborhoods, map_to_plane


@pytest.fixture(scope="module")
def split():
    """Embeddings of five classes, some of them near each other, and a class with one image."""
    random = np.random.default_rng(0)
    labels = np.r_[random.integers(5, size=60), 5]
    centers = np.array([[0, 0], [0.1, 0], [5, 5], [5, 9], [-9, 2], [30, 30]])
    return centers[labels] + 0.5 * random.standard_normal((61, 2)), labels


def test_the_worst_class_comes_first(split):
    embeddings, labels = split
    found = find_neighborhoods(embeddings, labels, 3)
    recall = {
        label: np.mean([found.nearest_is_positive[i] for i in np.flatnonzero(labels == label)])
        for label in range(5)
    }
    assert found.class_recall() == pytest.approx(recall)
    order = found.worst_first(np.arange(61))
    assert sorted(order) == list(range(61))
    values = [recall.get(labels[i], 2.0) for i in order]
    assert values == sorted(values)
    assert labels[order[0]] in (0, 1)
    assert order[-1] == 60
    right = [found.nearest_is_positive[i] for i in order if labels[i] == labels[order[0]]]
    assert right == sorted(right)


def test_confusions_are_counted_pair_for_pair(split, monkeypatch):
    embeddings, labels = split
    found = find_neighborhoods(embeddings, labels, 3)
    counts, nearest = collections.Counter(), {}
    for query in range(61):
        distances = np.linalg.norm(embeddings - embeddings[query], axis=1)
        distances[query] = np.inf
        for image in np.argsort(distances)[:3]:
            if labels[image] != labels[query]:
                pair = tuple(sorted((int(labels[query]), int(labels[image]))))
                counts[pair] += 1
                nearest[pair] = min(nearest.get(pair, np.inf), distances[image])
    got = found.confusions()
    assert {item.classes: item.count for item in got} == dict(counts)
    assert [item.count for item in got] == sorted(counts.values(), reverse=True)
    assert got[0].classes == (0, 1)
    for item in got:
        first, second = item.images
        assert {labels[first], labels[second]} == set(item.classes)
        assert np.linalg.norm(embeddings[first] - embeddings[second]) == pytest.approx(nearest[item.classes])
    monkeypatch.setattr("profs_tf.visual.gallery_content._CONFUSIONS", 1)
    assert found.confusions() == got[:1]


@pytest.mark.parametrize("method", ["pca", "tsne"])
def test_the_map_keeps_groups_apart(method):
    random = np.random.default_rng(0)
    groups = np.repeat([0, 1], 20)
    embeddings = (20.0 * groups[:, None] * np.eye(6)[2] + random.standard_normal((40, 6))).astype(np.float32)
    points = map_to_plane(embeddings, method)
    assert points.shape == (40, 2)
    assert points.min() == 0
    assert points.max() == 1
    np.testing.assert_array_equal(points, map_to_plane(embeddings, method))
    means = [points[groups == group].mean(axis=0) for group in (0, 1)]
    spread = max(points[groups == group].std(axis=0).max() for group in (0, 1))
    assert np.linalg.norm(means[0] - means[1]) > 3 * spread


def test_a_map_of_equal_or_flat_embeddings_is_drawn():
    assert np.isfinite(map_to_plane(np.ones([5, 3]), "pca")).all()
    np.testing.assert_allclose(map_to_plane(np.arange(5.0)[:, None], "pca")[:, 1], 0, atol=1e-12)


def test_bad_maps_are_refused():
    with pytest.raises(ValueError, match="`method` must be one of pca, tsne, got 'umap'"):
        map_to_plane(np.ones([5, 3]), "umap")
    with pytest.raises(ValueError, match="`embeddings` must be at least 3, got 2"):
        map_to_plane(np.ones([2, 3]), "pca")


def test_ties_rank_the_negative_first_as_in_recall():
    labels = np.array([0, 0, 1, 1, 1])
    found = find_neighborhoods(np.ones([5, 3]), labels, 3)
    # The images of the other class come first, and by index.
    assert found.indices.tolist() == [[2, 3, 4], [2, 3, 4], [0, 1, 3], [0, 1, 2], [0, 1, 2]]
    assert not found.nearest_is_positive.any()
    assert found.class_recall() == {0: 0.0, 1: 0.0}


def test_only_queries_count_and_only_the_others_are_found(split):
    embeddings, labels = split
    is_query = np.arange(61) % 3 == 0
    found = find_neighborhoods(embeddings, labels, 3, is_query=is_query)
    distances = np.linalg.norm(embeddings[:, None] - embeddings[None], axis=2)
    distances[:, is_query] = np.inf
    np.fill_diagonal(distances, np.inf)
    np.testing.assert_array_equal(found.indices, np.argsort(distances, axis=1)[:, :3])
    counted = [i for i in np.flatnonzero(is_query) if labels[i] in labels[~is_query]]
    right = np.mean([found.nearest_is_positive[i] for i in counted])
    assert found.retrieval.recall_at(1)[1] == pytest.approx(right)
    wrong = sum(labels[i] != labels[j] for i in np.flatnonzero(is_query) for j in found.indices[i])
    assert sum(confusion.count for confusion in found.confusions()) == wrong
