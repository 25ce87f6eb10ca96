import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from profs_tf.losses.ops import (
    gather_in_rows,
    kth_smallest,
    log_add_exp,
    masked_log_sum_exp,
    masked_mean,
    paired_log_sum_exp,
    searchsorted_right,
)


def value_and_gradient(function, x):
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = function(x)
    return value.numpy(), tape.gradient(value, x).numpy()


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_masked_log_sum_exp(scale):
    rng = np.random.default_rng(0)
    x = scale * rng.normal(size=[5, 9])
    mask = rng.integers(0, 2, [5, 9]).astype(bool)
    mask[2] = False
    value, gradient = value_and_gradient(lambda x: masked_log_sum_exp(x, mask), x)
    for row in (0, 1, 3, 4):
        kept = x[row][mask[row]]
        share = np.exp(kept - kept.max())
        np.testing.assert_allclose(value[row], kept.max() + np.log(share.sum()), rtol=1e-12)
        np.testing.assert_allclose(gradient[row][mask[row]], share / share.sum(), rtol=1e-9, atol=1e-300)
    assert value[2] < -9e29
    np.testing.assert_array_equal(gradient[~mask], 0.0)


def test_log_add_exp():
    a, b = [1.0, -1e30, -1e30, 1e4, 3.0], [1.0, 2.0, -1e30, -1e4, 4.0]
    value, gradient = value_and_gradient(lambda x: log_add_exp(x, tf.constant(b, tf.float64)), np.array(a))
    np.testing.assert_allclose(value, np.logaddexp(a, b))
    np.testing.assert_allclose(gradient, [0.5, 0.0, 0.5, 1.0, 1 / (1 + np.e)])


@pytest.mark.parametrize("scale", [1.0, 1e4])
@pytest.mark.parametrize("kind", ["one each", "many", "none"])
def test_paired_log_sum_exp(scale, kind):
    """Against the [B, B, N] object itself; logits of 1e4 leave nothing of a product of exponentials."""
    rng = np.random.default_rng(0)
    size = 10
    logits = scale * rng.normal(size=[size, 7])
    classes = {"one each": np.arange(size) // 2, "many": np.arange(size) % 3, "none": np.arange(size)}[kind]
    pairs = (classes[:, None] == classes) & ~np.eye(size, dtype=bool)
    mask = rng.integers(0, 2, [size, 7]).astype(bool)[classes]  # rows of a class have the same
    mask[classes == 1] = False
    upstream = rng.normal(size=[size, size])

    def naive(logits):
        sums = logits[:, tf.newaxis, :] + logits[tf.newaxis, :, :]
        masks = tf.broadcast_to(mask[:, np.newaxis, :], sums.shape)
        counted = pairs & mask.any(axis=1, keepdims=True)
        return tf.where(counted, masked_log_sum_exp(sums, masks), 0.0)

    results = []
    for function in (naive, lambda x: paired_log_sum_exp(x, tf.constant(mask), tf.constant(pairs))):
        results.append(
            (
                function(tf.constant(logits)),
                value_and_gradient(
                    lambda x, function=function: tf.reduce_sum(upstream * function(x)), logits
                )[1],
            )
        )
    np.testing.assert_allclose(results[1][0], results[0][0], rtol=1e-12)
    np.testing.assert_allclose(results[1][1], results[0][1], rtol=1e-9, atol=1e-12)


def test_masked_mean_of_nothing_is_zero():
    terms = np.array([3.0, 5.0, 7.0], np.float32)
    assert float(masked_mean(tf.constant(terms), tf.constant([True, False, True]))) == 5.0
    value, gradient = value_and_gradient(lambda x: masked_mean(x, tf.zeros([3])), terms)
    assert value == 0.0
    np.testing.assert_array_equal(gradient, 0.0)


def test_gather_in_rows():
    matrix = tf.reshape(tf.range(9), [3, 3])
    np.testing.assert_array_equal(
        gather_in_rows(matrix, [[0, 2, 1], [1, 1, 1], [2, 0, 2]]), [[0, 2, 1], [4, 4, 4], [8, 6, 8]]
    )


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 5), st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_searchsorted_right_agrees_with_numpy(rows, size, values, seed):
    """Few distinct numbers, so that many are equal; infinities at the end, as in mining."""
    rng = np.random.default_rng(seed)
    sorted_rows = np.sort(rng.integers(-3, 4, [rows, size]).astype(np.float32), axis=1)
    sorted_rows[:, size - rng.integers(0, size) :] = np.inf
    values_to_find = rng.integers(-4, 5, [rows, values]).astype(np.float32)
    counts = searchsorted_right(tf.constant(sorted_rows), tf.constant(values_to_find))
    expected = [np.searchsorted(row, value, side="right") for row, value in zip(sorted_rows, values_to_find)]
    np.testing.assert_array_equal(counts, expected)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_searchsorted_right_agrees_compiled(jit_compile):
    rng = np.random.default_rng(0)
    sorted_rows = np.sort(rng.integers(-3, 4, [6, 50]).astype(np.float64), axis=1)
    values_to_find = rng.integers(-4, 5, [6, 30]).astype(np.float64)
    compiled = tf.function(searchsorted_right, autograph=False, jit_compile=jit_compile)
    expected = [np.searchsorted(row, value, side="right") for row, value in zip(sorted_rows, values_to_find)]
    np.testing.assert_array_equal(compiled(sorted_rows, values_to_find), expected)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_long_rows_have_the_ranks_of_sorted_ones(jit_compile):
    rng = np.random.default_rng(0)
    rows = rng.uniform(0.0, 4.0, [6, 5000]).astype(np.float32)
    rows[:, ::5], rows[:, 1::7], rows[4], rows[5, :2500] = np.inf, 0.0, 1.5, np.nextafter(np.float32(2), 3)
    find = tf.function(kth_smallest, autograph=False, jit_compile=jit_compile)
    for ranks in rng.integers(1, 5001, [5, 6, 1]):
        expected = np.take_along_axis(np.sort(rows, axis=1), ranks - 1, axis=1)
        found = find(tf.constant(rows), tf.constant(ranks, tf.int32))
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(kth_smallest(rows.astype(np.float64), ranks), expected)
    assert np.all(find(tf.constant(rows), tf.zeros([6, 1], tf.int32)) == -np.inf)
