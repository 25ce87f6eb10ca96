import numpy as np
import tensorflow as tf
from hypothesis import given

from profs_tf import losses
from tests.losses.loss_cases import unit_rows, value_and_gradients
from tests.losses.loss_oracle import check_against_loops, random_batches, variant_settings


@variant_settings
@given(batch=random_batches())
def test_agrees_with_loops(batch):
    check_against_loops("soft_triple", batch)


@variant_settings
@given(batch=random_batches())
def test_one_center_agrees_with_loops(batch):
    check_against_loops("soft_triple_one_center", batch)


def test_coinciding_centers_have_finite_gradients():
    loss = losses.SoftTripleLoss(3, 4, centers_per_class=2)
    loss.centers.assign(tf.ones_like(loss.centers))
    y, E = [0, 1, 2], unit_rows(np.random.default_rng(0), 3, 4)
    value, gradients = value_and_gradients(loss, y, E)
    assert np.isfinite(value)
    assert all(np.all(np.isfinite(gradient)) for gradient in gradients)
    loss.centers.assign(tf.zeros_like(loss.centers))
    value, gradients = value_and_gradients(loss, y, E)
    assert np.isfinite(value)
    assert all(np.all(np.isfinite(gradient)) for gradient in gradients)


def test_length_of_the_centers_does_not_matter():
    loss = losses.SoftTripleLoss(3, 4)
    y, E = [0, 1, 2], unit_rows(np.random.default_rng(0), 3, 4)
    before = float(loss(y, E))
    loss.centers.assign(7.0 * loss.centers)
    np.testing.assert_allclose(loss(y, E), before, rtol=1e-6)


def test_one_class_leaves_the_spread_only():
    loss = losses.SoftTripleLoss(1, 4, tau=0.0)
    assert float(loss([0, 0], unit_rows(np.random.default_rng(0), 2, 4))) == 0.0
