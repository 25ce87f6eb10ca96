"""The pure update rule against Adam in NumPy, for dense and sparse gradients."""

import numpy as np
import tensorflow as tf

from profs_tf.optimizers.adam_rule import adam_update
from tests.optimizers.optimizer_cases import BETA_1, BETA_2, EPSILON, gradients, numpy_adam


def steps_of(start, grads, rate, amsgrad=False):
    value, moments = tf.constant(start), [tf.zeros_like(start)] * (3 if amsgrad else 2)
    for t, grad in enumerate(grads, start=1):
        options = {"beta_1": BETA_1, "beta_2": BETA_2, "epsilon": EPSILON}
        moments, decrement = adam_update(
            grad, moments, rate=tf.constant(rate), step=tf.constant(float(t)), **options
        )
        value -= decrement
    return value.numpy(), moments


def test_ten_steps_equal_numpy():
    start, grads = np.ones((3, 2), "f"), [grad for grad, *_ in gradients(10)]
    got, moments = steps_of(start, grads, 0.01)
    np.testing.assert_allclose(got, numpy_adam(start, grads, [0.01] * 10), rtol=1e-6, atol=1e-6)
    assert len(moments) == 2


def test_amsgrad_divides_by_the_largest_second_moment():
    grads = [np.float32(scale) * np.ones(2, "f") for scale in (8, 0, 0, 0)]
    got, (_, v, largest) = steps_of(np.zeros(2, "f"), grads, 0.01, amsgrad=True)
    assert np.all(largest.numpy() > v.numpy())
    plain, _ = steps_of(np.zeros(2, "f"), grads, 0.01)
    assert np.all(np.abs(got) < np.abs(plain))


def test_slices_equal_the_dense_gradient_they_stand_for():
    rows = tf.IndexedSlices(tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([0, 2]), [4, 2])
    dense = tf.constant([[1.0, 2.0], [0.0, 0.0], [3.0, 4.0], [0.0, 0.0]])
    start = np.arange(8, dtype="f").reshape(4, 2)
    got, _ = steps_of(start, [rows] * 3, 0.01)
    np.testing.assert_allclose(got, steps_of(start, [dense] * 3, 0.01)[0], rtol=1e-6)
