import warnings
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from profs_tf.metrics.agreement import normalized_mutual_information, pair_f1
from profs_tf.metrics.exact import matmul
from profs_tf.metrics.k_means.lloyd import kmeans


def groups(seed, size=400, num_groups=40, dimension=8, spread=1.0, dtype=np.float32):
    generator = np.random.default_rng(seed)
    centers = generator.standard_normal((num_groups, dimension))
    noise = spread * generator.standard_normal((size, dimension))
    return (centers[generator.integers(num_groups, size=size)] + noise).astype(dtype)


def plain_lloyd(embeddings, centers, iterations):
    """Every image against every center in every iteration, in float64; None where a cluster runs empty."""
    embeddings, centers = embeddings.astype(np.float64), centers.astype(np.float64)
    for _ in range(iterations + 1):
        distances_sq = ((embeddings[:, None] - centers) ** 2).sum(axis=-1)
        assignments, last = distances_sq.argmin(axis=1), centers
        if len(np.unique(assignments)) < len(centers):
            return None
        centers = np.stack([embeddings[assignments == c].mean(axis=0) for c in range(len(centers))])
    return assignments, last, distances_sq.min(axis=1).sum()


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 12), st.integers(7, 300))
def test_sparing_comparisons_changes_nothing(seed, num_clusters, iterations, block):
    embeddings = groups(seed, size=150)
    first = embeddings[np.random.default_rng(seed).choice(150, num_clusters, replace=False)]
    expected = plain_lloyd(embeddings, first, iterations)
    if expected is None:
        return
    with mock.patch.object(matmul, "BLOCK", block):
        found = kmeans(embeddings, num_clusters, start=first, max_iterations=iterations, tolerance=0.0)
    np.testing.assert_array_equal(found.assignments, expected[0])
    np.testing.assert_allclose(found.centers, expected[1], atol=1e-5)
    assert found.inertia == pytest.approx(expected[2], rel=1e-5)


@pytest.mark.parametrize("max_iterations", [1, 2, 5, 50])
@pytest.mark.parametrize("num_clusters", [5, 60, 399])
def test_equals_scikit_learn_from_the_same_start(num_clusters, max_iterations):
    embeddings = groups(1)
    first = embeddings[np.random.default_rng(1).choice(len(embeddings), num_clusters, replace=False)]
    found = kmeans(embeddings, num_clusters, start=first, max_iterations=max_iterations, tolerance=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # That it has not converged is meant.
        other = KMeans(num_clusters, init=first, n_init=1, max_iter=max_iterations, tol=0.0).fit(embeddings)
    np.testing.assert_array_equal(found.assignments, other.labels_)
    np.testing.assert_allclose(found.centers, other.cluster_centers_, atol=1e-5)


@pytest.mark.parametrize("start", ["k-means++", "random"])
def test_a_seed_gives_one_result_and_another_seed_another(start):
    embeddings = groups(2)
    first, again, other = (kmeans(embeddings, 30, start=start, seed=seed) for seed in (7, 7, 8))
    np.testing.assert_array_equal(first.assignments, again.assignments)
    np.testing.assert_array_equal(first.centers, again.centers)
    assert (first.assignments != other.assignments).any()


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["k-means++", "random"]), st.integers(1, 200))
def test_every_image_is_with_its_nearest_center_and_no_cluster_is_empty(seed, start, num_clusters):
    embeddings = groups(seed, size=200)
    found = kmeans(embeddings, num_clusters, start=start, seed=seed)
    distances_sq = ((embeddings[:, None].astype(np.float64) - found.centers) ** 2).sum(axis=-1)
    own = distances_sq[np.arange(200), found.assignments]
    assert (own <= distances_sq.min(axis=1) + 1e-5).all()
    assert found.inertia == pytest.approx(own.sum(), rel=1e-5, abs=1e-9)
    assert len(np.unique(found.assignments)) == num_clusters


def test_a_cluster_without_members_takes_the_farthest_image():
    embeddings = np.array([[0.0], [1.0], [2.0], [100.0]])
    found = kmeans(embeddings, 3, start=np.array([[0.0], [1.5], [1000.0]]), tolerance=0.0)
    np.testing.assert_allclose(np.sort(found.centers[:, 0]), [0.0, 1.5, 100.0])


def test_fewer_different_images_than_clusters():
    embeddings = np.repeat(np.arange(3.0), 5)[:, None]
    for start in ("k-means++", "random"):
        found = kmeans(embeddings, 10, start=start, tolerance=0.0)
        assert found.converged
        assert found.inertia == 0.0
        np.testing.assert_allclose(found.centers[found.assignments], embeddings)


def test_as_many_clusters_as_images():
    embeddings = groups(3, size=50)
    found = kmeans(embeddings, 50)
    assert sorted(found.assignments) == list(range(50))
    np.testing.assert_allclose(found.centers[found.assignments], embeddings, atol=1e-5)


def test_iterations_are_bounded():
    found = kmeans(groups(4), 40, max_iterations=2, tolerance=0.0)
    assert found.iterations == 2
    assert not found.converged


def test_a_large_tolerance_ends_early():
    embeddings = groups(5)
    coarse, fine = (kmeans(embeddings, 20, tolerance=tolerance) for tolerance in (0.05, 0.0))
    assert coarse.converged
    assert fine.converged
    assert coarse.iterations < fine.iterations
    assert fine.inertia < coarse.inertia


def test_the_best_of_several_starts_counts():
    embeddings = groups(6)
    several = kmeans(embeddings, 40, start="random", num_starts=8)
    assert several.inertia < kmeans(embeddings, 40, start="random").inertia


@pytest.mark.parametrize(("factor", "offset"), [(1e-6, 1.0), (1e30, 0.0), (1.0, 1000.0)])
def test_clusters_do_not_depend_on_origin_and_unit(factor, offset):
    embeddings = groups(7, dtype=np.float64)
    expected = kmeans(embeddings, 40)
    moved = kmeans(embeddings * factor + offset, 40)
    np.testing.assert_array_equal(moved.assignments, expected.assignments)
    np.testing.assert_allclose((moved.centers - offset) / factor, expected.centers, rtol=1e-5, atol=1e-5)
    assert moved.inertia == pytest.approx(expected.inertia * factor**2, rel=1e-4)


def test_far_apart_groups_are_found_by_the_start():
    generator = np.random.default_rng(8)
    labels = np.arange(900) % 300
    embeddings = 100 * generator.standard_normal((300, 16))[labels] + generator.standard_normal((900, 16))
    spread_out = kmeans(embeddings, 300, max_iterations=1, start="k-means++")
    found = np.unique(np.stack([labels, spread_out.assignments]), axis=1).T
    assert len(found) == 300


def test_scores_as_scikit_learns_default():
    labels = np.repeat(np.arange(120), 8)
    generator = np.random.default_rng(0)
    embeddings = generator.standard_normal((120, 64))[labels] + 1.1 * generator.standard_normal((960, 64))
    embeddings = (embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)).astype(np.float32)

    def scores(cluster):
        found = [cluster(seed) for seed in range(5)]
        return np.array([(normalized_mutual_information(labels, c), pair_f1(labels, c)) for c in found])

    ours = scores(lambda seed: kmeans(embeddings, 120, seed=seed).assignments)
    theirs = scores(lambda seed: KMeans(120, n_init=1, random_state=seed).fit(embeddings).labels_)
    error = np.sqrt((ours.var(axis=0, ddof=1) + theirs.var(axis=0, ddof=1)) / 5)
    # One candidate for each center instead of greedy trials loses 0.05 and 0.15.
    assert (np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) < 2 * error).all()


def test_both_backends_agree():
    embeddings = groups(9, dimension=32, spread=0.3)
    numpy_result, tensorflow_result = (
        kmeans(embeddings, 40, backend=name) for name in ("numpy", "tensorflow")
    )
    np.testing.assert_array_equal(numpy_result.assignments, tensorflow_result.assignments)


def test_shows_progress(capsys, monkeypatch):
    monkeypatch.setenv("PYCHARM_HOSTED", "1")
    kmeans(groups(10), 40, progress=True)
    shown = capsys.readouterr().err
    assert "starting centers" in shown
    assert "100%" not in shown


FINE = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_clusters": 4}, "`num_clusters` must be <= 3, the number of embeddings, got 4."),
        ({"num_clusters": 0}, "`num_clusters` must be a whole number >= 1, got 0."),
        ({"num_clusters": 2.0}, "`num_clusters` must be a whole number >= 1, got 2.0."),
        ({"max_iterations": 0}, "`max_iterations` must be a whole number >= 1, got 0."),
        ({"seed": -1}, "`seed` must be a whole number >= 0, got -1."),
        ({"num_starts": True}, "`num_starts` must be a whole number >= 1, got True."),
        ({"tolerance": -0.1}, "`tolerance` must be >= 0, got -0.1."),
        ({"tolerance": np.nan}, "`tolerance` must be >= 0, got nan."),
        ({"start": "far"}, r"`start` must be one of k-means\+\+, random, or centers, got 'far'."),
        ({"start": FINE}, r"`start` must have shape \[C, D\], \(2, 2\), got \(3, 2\)."),
        ({"start": FINE[:2] * np.nan}, "`start` must be finite, got 2 of 2"),
        ({"start": FINE[:2], "num_starts": 2}, "`num_starts` must be 1 where `start` holds centers, got 2."),
        ({"embeddings": np.full((3, 2), np.inf)}, "`embeddings` must be finite"),
    ],
)
def test_refuses_what_it_cannot_cluster(arguments, message):
    with pytest.raises(ValueError, match=message):
        kmeans(**{"embeddings": FINE, "num_clusters": 2, **arguments})
