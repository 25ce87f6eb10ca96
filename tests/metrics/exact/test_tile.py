import numpy as np
import pytest

from profs_tf.metrics.exact.embeddings import EmbeddingSet, fit_centering
from profs_tf.metrics.exact.tile import Tile, count_rows, exact_scores, nonzero_pairs


def make_tile(order="C", dtype=np.float32):
    """Twenty queries of five classes and thirty images of which positions 10 to 40 are in the tile."""
    random = np.random.default_rng(0)
    scores = np.asarray(-random.random((20, 30)), dtype, order=order)
    begins = np.repeat([5, 12, 20, 20, 38], 4)
    ends = np.repeat([12, 15, 20, 26, 44], 4)
    return Tile(scores, slice(0, 20), slice(10, 40), np.zeros(20), begins - 10, ends - 10)


def negatives_by_loop(tile, bounds):
    return [
        (row, column)
        for row in range(20)
        for column in range(30)
        if tile.scores[row, column] >= bounds[row] and not tile.begins[row] <= column < tile.ends[row]
    ]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_negatives_at_least_a_bound(order, dtype):
    tile = make_tile(order, dtype)
    # Some bounds are scores, others just above them.
    bounds = np.quantile(tile.scores, 0.8, axis=1, method="nearest").astype(np.float64)
    bounds[::2] = np.nextafter(bounds[::2], 1)
    expected = negatives_by_loop(tile, bounds)
    reached = tile.negatives_at_least(bounds)
    assert list(zip(*nonzero_pairs(reached))) == expected or sorted(zip(*nonzero_pairs(reached))) == expected
    assert sorted(zip(*tile.list_negatives_at_least(bounds, 600))) == expected
    assert tile.list_negatives_at_least(bounds, len(expected) // 2) is None
    np.testing.assert_array_equal(count_rows(reached), reached.sum(axis=1))


def test_a_part_has_the_rows_of_the_whole():
    tile, rows = make_tile(), slice(6, 11)
    bounds = np.full(20, -0.3)
    part = tile.part(rows)
    np.testing.assert_array_equal(
        part.negatives_at_least(bounds[rows]), tile.negatives_at_least(bounds)[rows]
    )
    assert part.rows == rows


def test_exact_scores_raise_negatives_to_ties():
    embeddings = np.random.default_rng(0).integers(-2, 3, (30, 3)).astype(np.float64)
    images = EmbeddingSet(embeddings, np.arange(30) // 3, fit_centering("euclidean", embeddings))
    tile = Tile(
        np.zeros((30, 30), np.float32), slice(0, 30), slice(0, 30), np.ones(30), *[np.zeros(30, int)] * 2
    )
    exact = tile.exact(images, images)
    rows, columns = np.divmod(np.arange(900), 30)
    pairs = exact_scores(images, images, rows, columns).reshape(30, 30)
    np.testing.assert_allclose(exact.scores, pairs, rtol=0, atol=1e-14)
    differences = images.rows(rows) - images.rows(columns)
    true = (-(differences**2).sum(axis=1) / 2).reshape(30, 30)
    np.testing.assert_array_less(true - 1e-15, pairs)
    np.testing.assert_allclose(pairs, true, atol=2e-12)
    assert not exact.error.any()
