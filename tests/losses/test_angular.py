import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given

from profs_tf import losses
from tests.losses.loss_cases import unit_rows
from tests.losses.loss_oracle import check_against_loops, oracle_settings, random_batches, variant_settings


@oracle_settings
@given(batch=random_batches())
def test_agrees_with_loops(batch):
    check_against_loops("angular", batch)


@variant_settings
@given(batch=random_batches())
def test_with_n_pair_agrees_with_loops(batch):
    check_against_loops("angular_with_n_pair", batch)


@pytest.mark.parametrize("images_per_class", [2, 5])
def test_agrees_with_all_triplets_at_once(images_per_class):
    """The [B, B, B] object that the loss avoids, in float64, value and gradient."""
    rng = np.random.default_rng(images_per_class)
    y = rng.permutation(np.repeat(np.arange(4), images_per_class))
    E = tf.constant(unit_rows(rng, len(y)), tf.float64)
    tan_sq = np.tan(np.pi / 6) ** 2
    same = y[:, None] == y
    positive = same & ~np.eye(len(y), dtype=bool)

    def naive(E):
        s = tf.matmul(E, E, transpose_b=True)
        f = 4 * tan_sq * (s[:, None, :] + s[None, :, :]) - 2 * (1 + tan_sq) * s[:, :, None]
        total = tf.reduce_sum(tf.where(~same[:, None, :], tf.exp(f), 0.0), axis=2)
        return tf.reduce_mean(tf.boolean_mask(tf.math.log(1.0 + total), positive))

    results = []
    for function in (naive, lambda E: losses.AngularLoss(angle=30.0)(y, E)):
        with tf.GradientTape() as tape:
            tape.watch(E)
            value = function(E)
        results.append((value, tape.gradient(value, E)))
    np.testing.assert_allclose(results[1][0], results[0][0], rtol=1e-12)
    np.testing.assert_allclose(results[1][1], results[0][1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("angle", [0.0, 90.0, -3.0, float("nan")])
def test_angle_out_of_range(angle):
    with pytest.raises(ValueError, match="`angle` must be between 0 and 90 degrees, got"):
        losses.AngularLoss(angle=angle)
