import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given

from profs_tf import losses
from tests.losses.loss_cases import unit_rows
from tests.losses.loss_oracle import check_against_loops, oracle_settings, random_batches


@oracle_settings
@given(batch=random_batches())
def test_hard_agrees_with_loops(batch):
    check_against_loops("triplet", batch)


@oracle_settings
@given(batch=random_batches())
def test_semi_hard_agrees_with_loops(batch):
    check_against_loops("triplet_semi_hard", batch)


@pytest.mark.parametrize("seed", range(5))
def test_semi_hard_agrees_with_tfa(tfa, seed):
    rng = np.random.default_rng(seed)
    y, E = rng.permutation(np.repeat(np.arange(8), 3)), unit_rows(rng, 24)
    expected = tfa.losses.triplet_semihard_loss(
        tf.constant(y), tf.constant(E), margin=0.2, distance_metric="squared-L2"
    )
    np.testing.assert_allclose(losses.TripletLoss(mining="semi_hard")(y, E), expected, rtol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_hard_agrees_with_tfa_for_two_images_a_class(tfa, seed):
    """tfa also takes the hardest positive: with two images a class there is only one."""
    rng = np.random.default_rng(seed)
    y, E = rng.permutation(np.repeat(np.arange(12), 2)), unit_rows(rng, 24)
    expected = tfa.losses.triplet_hard_loss(
        tf.constant(y), tf.constant(E), margin=0.2, distance_metric="squared-L2"
    )
    np.testing.assert_allclose(losses.TripletLoss(mining="hard")(y, E), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("mining", "negatives_sq"),
    [
        ("hard", [0.5**2, 1.0**2]),  # of the queries 0 and 1, the closest images 2 and 3
        ("semi_hard", [2.0**2, 1.5**2]),  # farther than 1, the distance of the positive: images 3 and 2
    ],
)
def test_choice_of_the_negative(mining, negatives_sq):
    E = np.array([[0.0], [1.0], [-0.5], [2.0]], np.float32)
    expected = np.mean([max(1.0 - value + 1.6, 0.0) for value in negatives_sq])
    loss = losses.TripletLoss(margin=1.6, mining=mining)
    np.testing.assert_allclose(loss([0, 0, 1, 2], E), expected, rtol=1e-6)


def test_semi_hard_takes_the_farthest_where_none_is_farther():
    E = np.array([[0.0], [3.0], [0.5], [-1.0]], np.float32)
    loss = losses.TripletLoss(mining="semi_hard")
    expected = 9.0 - 1.0 + 0.2
    np.testing.assert_allclose(loss([0, 0, 1, 2], E, [1, 0, 0, 0]), expected, rtol=1e-6)


def test_semi_hard_is_strict():
    """A negative exactly as far as the positive is not farther."""
    E = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, -1.1]], np.float32)
    loss = losses.TripletLoss(mining="semi_hard", margin=1.0)
    np.testing.assert_allclose(loss([0, 0, 1, 1], E, [1, 0, 0, 0]), 1.0 - 1.1**2 + 1.0, rtol=1e-5)
