"""Eager, XLA with known shapes and tf.function with unknown ones compute the same."""

import numpy as np
import pytest
import tensorflow as tf

from tests.losses.loss_cases import NUM_CLASSES, build, every_loss, unit_rows, value_and_gradients

LABELS = np.repeat(np.arange(NUM_CLASSES), 3)
MASKS = {
    "ones": np.ones(len(LABELS), np.float32),
    "profs": np.tile([1.0, 0.0, 0.0], NUM_CLASSES).astype(np.float32),
}


def check_against_eager(loss, compiled, y, mask):
    E = unit_rows(np.random.default_rng(0), len(LABELS))
    value, gradients = value_and_gradients(loss, LABELS, E, mask)
    compiled_value, compiled_gradients = compiled(tf.constant(y), tf.constant(E), tf.constant(mask))
    np.testing.assert_allclose(compiled_value, value, rtol=1e-5)
    for a, b in zip(compiled_gradients, gradients):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@every_loss
def test_compiled_by_xla_equals_eager(name):
    loss = build(name).loss

    @tf.function(jit_compile=True, autograph=False)
    def compiled(y, E, mask):
        return value_and_gradients(loss, y, E, mask)

    for mask in MASKS.values():
        check_against_eager(loss, compiled, LABELS, mask)


@every_loss
def test_unknown_rank_and_shape(name):
    loss = build(name).loss
    E = unit_rows(np.random.default_rng(0), len(LABELS))
    unknown = [
        tf.TensorSpec(None, tf.int32),
        tf.TensorSpec(None, tf.float32),
        tf.TensorSpec(None, tf.float32),
    ]

    @tf.function(input_signature=unknown, autograph=False)
    def compiled(y, E, mask):
        return value_and_gradients(loss, y, E, mask)

    for shape in ([-1], [-1, 1]):
        for mask in MASKS.values():
            check_against_eager(loss, compiled, LABELS.reshape(shape).astype(np.int32), mask.reshape(shape))
    for one_hot in (np.eye(len(LABELS)), np.eye(NUM_CLASSES)[LABELS], LABELS[np.newaxis]):
        with pytest.raises(tf.errors.InvalidArgumentError, match="`y_true` must have shape"):
            compiled(one_hot.astype(np.int32), E, MASKS["profs"])
    assert np.isfinite(compiled(np.array([[3]], np.int32), E[:1], [1.0])[0])
