import numpy as np
import pytest
import tensorflow as tf

from profs_tf.losses.content_random import pair_uniforms
from tests.losses.loss_reference import embedding_hash, pair_uniform


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", [0, 1, 123456789])
def test_agrees_with_python_integers(dtype, seed):
    E = np.random.default_rng(0).normal(size=[7, 33]).astype(dtype)
    hashes = [embedding_hash(vector, seed) for vector in E]
    expected = [[pair_uniform(a, b) for b in hashes] for a in hashes]
    np.testing.assert_array_equal(pair_uniforms(tf.constant(E), seed), expected)


def test_is_the_same_compiled():
    E = tf.constant(np.random.default_rng(0).normal(size=[16, 128]).astype(np.float32))
    for jit_compile in (False, True):
        compiled = tf.function(lambda E: pair_uniforms(E, 3), autograph=False, jit_compile=jit_compile)
        np.testing.assert_array_equal(compiled(E), pair_uniforms(E, 3))


def test_is_evenly_spread_and_uncorrelated():
    """Pairs of 200 embeddings that differ in a few bits: mean, histogram, correlations."""
    E = np.ones([200, 16], np.float32)
    E[:, 5] += np.arange(200, dtype=np.float32) * 2.0**-23
    u = pair_uniforms(tf.constant(E), 0).numpy()
    assert abs(u.mean() - 0.5) < 5 * np.sqrt(1 / 12 / u.size)
    counts = np.histogram(u, bins=20, range=(0, 1))[0]
    assert np.sum((counts - u.size / 20) ** 2 / (u.size / 20)) < 46  # chi-squared of 19 degrees, 5 in 10,000
    off = ~np.eye(200, dtype=bool)
    assert abs(np.corrcoef(u[off], u.T[off])[0, 1]) < 5 / np.sqrt(off.sum() / 2)
    assert abs(np.corrcoef(u[:-1].ravel(), u[1:].ravel())[0, 1]) < 5 / np.sqrt(u.size)
