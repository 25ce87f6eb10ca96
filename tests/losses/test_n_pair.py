import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given

from profs_tf import losses
from tests.losses.loss_oracle import check_against_loops, oracle_settings, random_batches
from tests.losses.tfa_oracle import tfa


@oracle_settings
@given(batch=random_batches())
def test_agrees_with_loops(batch):
    check_against_loops("n_pair", batch)


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_tfa(seed):
    """tfa takes the similarities of the queries (rows) to the other images (columns), one of each class."""
    rng = np.random.default_rng(seed)
    queries, others = rng.normal(size=[2, 9, 5]).astype(np.float32)
    expected = tfa.losses.npairs_loss(tf.range(9), tf.constant(queries @ others.T))
    y = np.tile(np.arange(9), 2)
    E, q = np.concatenate([queries, others]), np.repeat([1, 0], 9)
    value = losses.NPairLoss(l2_weight=0.0)(y, E, q)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    l2 = np.mean(np.sum(E**2, axis=1))
    np.testing.assert_allclose(losses.NPairLoss(l2_weight=0.1)(y, E, q), expected + 0.1 * l2, rtol=1e-5)
