from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profs_tf import metrics
from profs_tf.metrics.exact import negatives, ranking
from tests.metrics.exact.reference import rank_by_sorting, tie_margin


def same_as(expected, labels, **arguments):
    """Searches with and without MAP@R and compares rank for rank."""
    ranks, averages, precisions = expected
    if not ranks.any():
        with pytest.raises(ValueError, match="`labels` must hold at least one class with another image"):
            metrics.evaluate_retrieval(labels=labels, **arguments)
        return
    plain = metrics.evaluate_retrieval(labels=labels, **arguments)
    full = metrics.evaluate_retrieval(labels=labels, with_map_at_r=True, **arguments)
    np.testing.assert_array_equal(plain.ranks, ranks)
    np.testing.assert_array_equal(full.ranks, ranks)
    np.testing.assert_allclose(full.average_precision, averages, rtol=1e-12)
    np.testing.assert_allclose(full.precision, precisions, rtol=1e-12)
    assert plain.average_precision is None
    assert plain.map_at_r is None
    counted = ranks > 0
    assert plain.num_left_out == (~counted).sum()
    assert full.map_at_r == pytest.approx(averages[counted].mean())
    assert full.r_precision == pytest.approx(precisions[counted].mean())
    assert full.mean_reciprocal_rank == pytest.approx((1 / ranks[counted]).mean())
    for k in range(1, plain.num_candidates + 1):
        assert plain.recall_at(k) == {k: (ranks[counted] <= k).mean()}


@st.composite
def sets(draw, dimension):
    """Integer embeddings, where ties and duplicates are frequent, with their labels."""
    size = draw(st.integers(1, 60))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    limit, num_classes = draw(st.sampled_from([0, 1, 3, 50])), draw(st.integers(1, size))
    embeddings = generator.integers(-limit, limit + 1, (size, dimension))
    duplicated = generator.random(size) < draw(st.sampled_from([0.0, 0.5]))
    embeddings[duplicated] = embeddings[generator.integers(size, size=duplicated.sum())]
    return embeddings, generator.integers(num_classes, size=size)


@st.composite
def searches(draw):
    """Queries, their labels, and a gallery with its own or None twice."""
    dimension = draw(st.integers(1, 6))
    gallery = draw(st.one_of(st.just((None, None)), sets(dimension)))
    return (*draw(sets(dimension)), *gallery)


# Small tiles, so that a few images need many of them, cut anywhere.
def small_tiles(tile, rows, thresholds):
    return mock.patch.multiple(ranking, _TILE=tile, _THRESHOLDS=thresholds), mock.patch.object(
        negatives, "_ROWS", rows
    )


tilings = st.tuples(st.integers(8, 64), st.integers(1, 16), st.sampled_from([1, 50, 1 << 24]))


@settings(deadline=None, max_examples=160)
@given(searches(), tilings, st.sampled_from([1.0, 2.0**-40, 3.0, 2.0**60]), st.sampled_from([0, 1000]))
def test_ranks_are_those_of_exact_integer_distances(search, tiling, unit, offset):
    queries, labels, gallery, gallery_labels = search
    expected = rank_by_sorting(queries, labels, gallery, gallery_labels)
    first, second = small_tiles(*tiling)
    with first, second:
        same_as(
            expected,
            labels,
            embeddings=((queries + offset) * unit).astype(np.float32),
            gallery_embeddings=None if gallery is None else ((gallery + offset) * unit).astype(np.float32),
            gallery_labels=gallery_labels,
        )


@settings(deadline=None, max_examples=80)
@given(
    st.integers(0, 2**32 - 1),
    tilings,
    st.sampled_from([np.float32, np.float64]),
    st.booleans(),
    st.booleans(),
)
def test_ranks_are_those_of_float64_distances(seed, tiling, dtype, own_set, collapsed):
    generator = np.random.default_rng(seed)
    dimension, num_classes = generator.integers(1, 40), generator.integers(1, 30)
    centers = generator.standard_normal((num_classes, dimension))

    def draw():
        labels = generator.integers(num_classes, size=generator.integers(2, 60))
        spread = generator.choice([0.1, 0.5, 2.0])
        embeddings = centers[labels] + spread * generator.standard_normal((len(labels), dimension))
        embeddings = 1 + 1e-5 * embeddings if collapsed else embeddings
        embeddings = embeddings.astype(dtype)
        return embeddings[generator.integers(len(labels), size=len(labels))], labels

    queries, labels = draw()
    gallery, gallery_labels = (None, None) if own_set else draw()
    exact = [None if part is None else part.astype(np.float64) for part in (queries, gallery)]
    margin = tie_margin(exact[0], exact[0] if own_set else exact[1])
    expected = rank_by_sorting(exact[0], labels, exact[1], gallery_labels, margin)
    first, second = small_tiles(*tiling)
    with first, second:
        same_as(
            expected, labels, embeddings=queries, gallery_embeddings=gallery, gallery_labels=gallery_labels
        )


@settings(deadline=None, max_examples=80)
@given(sets(3), st.integers(0, 2**32 - 1), st.floats(-30, 30))
def test_cosine_ranks_directions_whatever_their_length(embeddings_and_labels, seed, magnitude):
    embeddings, labels = embeddings_and_labels
    embeddings[:, 0] = np.where((embeddings == 0).all(axis=1), 1, embeddings[:, 0])
    generator = np.random.default_rng(seed)
    lengths = 10.0**magnitude * generator.uniform(0.1, 10, (len(labels), 1))
    directions = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    expected = rank_by_sorting(directions, labels, margin=np.full((len(labels), len(labels)), 2e-12))
    same_as(expected, labels, embeddings=embeddings * lengths, distance="cosine")


def test_an_exact_duplicate_of_another_class_is_a_tie_that_the_query_loses():
    embeddings = np.random.default_rng(0).standard_normal((3, 512)).astype(np.float32)
    embeddings = embeddings[[0, 0, 0, 1, 1, 2]]
    result = metrics.evaluate_retrieval(embeddings, [0, 0, 1, 2, 3, 3])
    # The first two find each other behind their duplicate, the third. The third and the fourth are alone.
    np.testing.assert_array_equal(result.ranks[:4], [2, 2, 0, 0])
    assert result.num_left_out == 2


def test_a_query_without_duplicates_never_finds_itself():
    embeddings = np.eye(4, dtype=np.float32)
    assert metrics.recall_at_k(embeddings, [0, 0, 1, 1], ks=(1, 2, 3)) == {1: 0.0, 2: 0.0, 3: 1.0}


def test_the_same_set_as_a_gallery_is_another_set():
    embeddings = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    labels = [0, 1, 2, 3, 4, 5]
    found = metrics.recall_at_k(
        embeddings, labels, ks=1, gallery_embeddings=embeddings, gallery_labels=labels
    )
    assert found == {1: 1.0}


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
def test_a_collapsed_model_scores_zero(distance):
    embeddings = np.full((300, 16), 0.25, np.float32)
    labels = np.repeat(np.arange(30), 10)
    result = metrics.evaluate_retrieval(embeddings, labels, distance=distance, with_map_at_r=True)
    assert (result.ranks == 291).all()
    assert result.recall_at((1, 100, 290)) == {1: 0.0, 100: 0.0, 290: 0.0}
    assert result.map_at_r == 0.0


def test_an_outlier_does_not_cost_the_others_their_ranks():
    generator = np.random.default_rng(3)
    labels = np.arange(200) % 20
    embeddings = generator.standard_normal((20, 8))[labels] + 0.5 * generator.standard_normal((200, 8))
    expected = rank_by_sorting(embeddings.astype(np.float32).astype(np.float64), labels)[0]
    with_outlier = np.concatenate([embeddings, np.full((1, 8), 1e5)]).astype(np.float32)
    result = metrics.evaluate_retrieval(with_outlier, np.append(labels, 20))
    np.testing.assert_array_equal(result.ranks, np.append(expected, 0))


@pytest.mark.parametrize("unit", [1e-300, 1e-45, 1e-30, 1e30, 1e300])
def test_ranks_do_not_depend_on_the_unit(unit):
    generator = np.random.default_rng(4)
    embeddings, labels = generator.integers(1, 9, (50, 4)).astype(np.float64), np.arange(50) % 7
    expected = rank_by_sorting(embeddings, labels)[0]
    np.testing.assert_array_equal(metrics.evaluate_retrieval(embeddings * unit, labels).ranks, expected)


@pytest.fixture(scope="module")
def many_tiles():
    """Embeddings, their labels, the ranks among all, and those of the first 3,000 among the others."""
    generator = np.random.default_rng(8)
    labels = np.append(generator.integers(900, size=5003), [900, 901])
    embeddings = generator.standard_normal((902, 24))[labels] + generator.standard_normal((5005, 24))
    embeddings[generator.integers(5005, size=500)] = embeddings[generator.integers(5005, size=500)]
    embeddings = embeddings.astype(np.float32)
    exact = embeddings.astype(np.float64)
    norms_sq = (exact**2).sum(axis=1)
    distances_sq = norms_sq[:, None] + norms_sq - 2 * exact @ exact.T
    positive = labels[:, None] == labels
    negative_sq = np.where(positive, np.inf, distances_sq)
    np.fill_diagonal(positive, False)
    nearest = np.where(positive, distances_sq, np.inf).min(axis=1)
    ranks = 1 + (negative_sq <= nearest[:, None] + 1e-10).sum(axis=1)
    ranks[~positive.any(axis=1)] = 0
    across = np.where(positive[:3000, 3000:], distances_sq[:3000, 3000:], np.inf).min(axis=1)
    expected = 1 + (negative_sq[:3000, 3000:] <= across[:, None] + 1e-10).sum(axis=1)
    return embeddings, labels, ranks, np.where(np.isinf(across), 0, expected)


@pytest.mark.parametrize("backend", ["numpy", "tensorflow"])
def test_many_tiles_of_the_real_size(backend, many_tiles):
    embeddings, labels, ranks, ranks_among_others = many_tiles
    result = metrics.evaluate_retrieval(embeddings, labels, backend=backend, with_map_at_r=True)
    np.testing.assert_array_equal(result.ranks, ranks)
    others = metrics.evaluate_retrieval(
        embeddings[:3000],
        labels[:3000],
        gallery_embeddings=embeddings[3000:],
        gallery_labels=labels[3000:],
        backend=backend,
    )
    np.testing.assert_array_equal(others.ranks, ranks_among_others)


def test_two_classes_larger_than_a_tile():
    generator = np.random.default_rng(5)
    embeddings = generator.integers(-2, 3, (150, 3))
    labels = np.arange(150) < 80
    expected = rank_by_sorting(embeddings, labels)
    first, second = small_tiles(16, 8, 1 << 24)
    with first, second:
        same_as(expected, labels, embeddings=embeddings.astype(np.float32))


def test_all_backends_find_the_same():
    generator = np.random.default_rng(6)
    labels = generator.integers(40, size=500)
    embeddings = (generator.standard_normal((40, 64))[labels] + generator.standard_normal((500, 64))).astype(
        "f"
    )
    found = [
        metrics.evaluate_retrieval(embeddings, labels, backend=backend, with_map_at_r=True)
        for backend in ("auto", "numpy", "tensorflow")
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(other.ranks, found[0].ranks)
        np.testing.assert_array_equal(other.average_precision, found[0].average_precision)


def test_recall_of_each_class():
    embeddings = np.array([[0.0], [1.0], [10.0], [12.0], [11.0], [50.0]])
    result = metrics.evaluate_retrieval(embeddings, ["a", "a", "b", "b", "c", "d"])
    assert result.class_recall_at(1) == {"a": 1.0, "b": 0.0}
    assert result.class_recall_at(2) == {"a": 1.0, "b": 1.0}
    np.testing.assert_array_equal(result.hits_at(1), [True, True, False, False, False, False])
