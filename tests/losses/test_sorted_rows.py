import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from profs_tf.losses.sorted_rows import count_not_above


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 5), st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_agrees_with_numpy(rows, size, values, seed):
    """Few distinct numbers, so that many are equal; infinities behind the numbers, as mining has them."""
    rng = np.random.default_rng(seed)
    in_order = np.sort(rng.integers(-3, 4, [rows, size]).astype(np.float32), axis=1)
    in_order[:, size - rng.integers(0, size) :] = np.inf
    wanted = rng.integers(-4, 5, [rows, values]).astype(np.float32)
    counts = count_not_above(tf.constant(in_order), tf.constant(wanted))
    expected = [np.searchsorted(row, value, side="right") for row, value in zip(in_order, wanted)]
    np.testing.assert_array_equal(counts, expected)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_agrees_compiled(jit_compile):
    rng = np.random.default_rng(0)
    in_order = np.sort(rng.integers(-3, 4, [6, 50]).astype(np.float64), axis=1)
    wanted = rng.integers(-4, 5, [6, 30]).astype(np.float64)
    compiled = tf.function(count_not_above, autograph=False, jit_compile=jit_compile)
    expected = [np.searchsorted(row, value, side="right") for row, value in zip(in_order, wanted)]
    np.testing.assert_array_equal(compiled(in_order, wanted), expected)
