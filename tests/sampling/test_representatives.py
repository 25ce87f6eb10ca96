import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profs_tf.sampling.class_index import ClassTable
from profs_tf.sampling.representatives import draw_representatives


def make_table(sizes):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    return ClassTable(np.random.default_rng(0).permutation(labels))


@pytest.mark.parametrize("draw", ["uniform", "cyclic"])
@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=20), st.integers(0, 2**62 - 1), st.integers(0, 10**9))
def test_one_image_of_every_class(draw, sizes, seed, projection):
    table = make_table(sizes)
    representatives = draw_representatives(table, seed, projection, draw)
    assert representatives.dtype == np.int64
    np.testing.assert_array_equal(table.class_of_image[representatives], np.arange(len(sizes)))


@pytest.mark.parametrize("draw", ["uniform", "cyclic"])
def test_pure_function_of_seed_and_projection(draw):
    table = make_table([7] * 30)
    again = [draw_representatives(table, 3, k, draw) for k in (5, 0, 5)]
    np.testing.assert_array_equal(again[0], again[2])
    assert (again[0] != again[1]).any()
    assert (again[0] != draw_representatives(table, 4, 5, draw)).any()


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=10), st.integers(0, 1000), st.integers(0, 3))
def test_cyclic_serves_every_image_once_a_cycle(sizes, seed, cycle):
    table = make_table(sizes)
    for class_index, size in enumerate(sizes):
        served = [
            draw_representatives(table, seed, k, "cyclic")[class_index]
            for k in range(cycle * size, (cycle + 1) * size)
        ]
        assert sorted(served) == sorted(np.flatnonzero(table.class_of_image == class_index))


def test_cyclic_shuffles_each_cycle_anew():
    table = make_table([20])
    orders = [
        tuple(draw_representatives(table, 0, c * 20 + t, "cyclic")[0] for t in range(20)) for c in range(4)
    ]
    assert len(set(orders)) == 4


def test_uniform_draws_uniformly():
    table = make_table([4] * 50)
    counts = np.zeros(200)
    for k in range(400):
        counts[draw_representatives(table, 1, k)] += 1
    # 400 draws of 4 images a class: chi-squared with 50 * 3 degrees of freedom, mean 150, deviation 17.
    assert abs(((counts - 100) ** 2 / 100).sum() - 150) < 5 * 17.4
