import collections
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import kmeans_plusplus

from profs_tf.metrics.exact.embeddings import fit_centering
from profs_tf.metrics.exact.matmul import NumpyProduct
from profs_tf.metrics.k_means.assign import NearestCenters
from profs_tf.metrics.k_means.init import _Draws, _Gains, greedy_start, random_start
from profs_tf.utils.progress import Progress

NO_BAR = Progress("", 0, shown=False)


def prepare(embeddings):
    centering = fit_centering("euclidean", embeddings)
    return NearestCenters(embeddings, centering, NumpyProduct()), centering.norms_sq(embeddings)


def distances_sq(embeddings, others):
    return ((embeddings[:, None] - others) ** 2).sum(axis=-1)


def gaussian_groups(num_groups, size, seed=0):
    generator = np.random.default_rng(seed)
    centers = np.repeat(generator.standard_normal((num_groups, 16)), size, axis=0)
    return (centers + generator.standard_normal(centers.shape)).astype(np.float32)


def test_the_best_of_two_draws_becomes_the_second_center():
    points = np.array([[0.0], [1.0], [3.0], [7.5]])
    between = distances_sq(points, points)
    expected = collections.Counter()
    for first in range(4):
        chances = between[first] / between[first].sum()
        for drawn in itertools.product(range(4), repeat=2):
            best = min(drawn, key=lambda image: np.minimum(between[first], between[image]).sum())
            expected[frozenset({first, best})] += chances[list(drawn)].prod() / 4
    nearest, norms_sq = prepare(points)
    found = collections.Counter(
        frozenset(greedy_start(nearest, norms_sq, 2, np.random.default_rng(seed), NO_BAR).tolist())
        for seed in range(1500)
    )
    for pair, chance in expected.items():
        assert found[pair] / 1500 == pytest.approx(chance, abs=0.05)


def test_batches_of_draws_choose_as_scikit_learn_does_one_by_one():
    embeddings = gaussian_groups(60, 8)

    def potential(centers):
        return distances_sq(embeddings, centers).min(axis=1).sum()

    nearest, norms_sq = prepare(embeddings)
    ours = [
        potential(embeddings[greedy_start(nearest, norms_sq, 60, np.random.default_rng(seed), NO_BAR)])
        for seed in range(40)
    ]
    theirs = [potential(kmeans_plusplus(embeddings, 60, random_state=seed)[0]) for seed in range(40)]
    error = np.sqrt((np.var(ours) + np.var(theirs)) / 39)
    assert abs(np.mean(ours) - np.mean(theirs)) < 3 * error


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_gains_are_those_of_all_distances(seed):
    generator = np.random.default_rng(seed)
    embeddings = gaussian_groups(6, 5, seed)
    nearest, norms_sq = prepare(embeddings)
    unit = norms_sq.sum() / distances_sq(embeddings, embeddings.mean(axis=0)).sum()
    between = distances_sq(embeddings, embeddings) * unit
    gains, centers, added = _Gains(nearest, norms_sq, 3), [3], np.array([], int)
    for _ in range(4):
        new = generator.integers(30, size=4)
        gains.add(new)
        added = np.union1d(added, new)
        for _ in range(2):
            current = between[:, centers].min(axis=1)
            np.testing.assert_allclose(gains.distances_sq, current, atol=1e-4)
            expected = np.maximum(current[:, None] - between[:, added], 0).sum(axis=0)
            np.testing.assert_allclose(gains.of[added], expected, atol=1e-4)
            centers.append(generator.choice(added))
            gains.accept(centers[-1])


def test_draws_follow_distances_that_shrink_after_they_were_made():
    before, after = np.array([4.0, 4.0, 2.0, 0.0]), np.array([4.0, 1.0, 0.0, 0.0])
    generator, made, taken = np.random.default_rng(0), [], []
    for _ in range(100):
        draws = _Draws(before, 400, generator)
        made.append(draws.images)
        while len(more := draws.take(4, after)) == 4:
            taken.append(more)
    made, taken = np.concatenate(made), np.concatenate(taken)
    np.testing.assert_allclose(np.bincount(made) / len(made), [0.4, 0.4, 0.2], atol=0.01)
    np.testing.assert_allclose(np.bincount(taken) / len(taken), [0.8, 0.2], atol=0.015)
    assert len(taken) > 0.4 * len(made)


@pytest.mark.parametrize("num_clusters", [1, 3, 10, 15])
def test_images_are_distinct_though_they_coincide(num_clusters):
    nearest, norms_sq = prepare(np.repeat(np.arange(3.0), 5)[:, None])
    generator = np.random.default_rng(0)
    for chosen in (
        greedy_start(nearest, norms_sq, num_clusters, generator, NO_BAR),
        random_start(15, num_clusters, generator),
    ):
        assert chosen.dtype == np.int64
        assert len(np.unique(chosen)) == num_clusters
    assert len(np.unique(greedy_start(nearest, norms_sq, 3, generator, NO_BAR) // 5)) == 3
