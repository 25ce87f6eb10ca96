import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given

from profs_tf import losses
from tests.losses.loss_oracle import check_against_loops, oracle_settings, random_batches


@oracle_settings
@given(batch=random_batches())
def test_agrees_with_loops(batch):
    check_against_loops("n_pair", batch)


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_tfa(tfa, seed):
    """tfa takes the similarities of the queries (rows) to the other images (columns), one of each class."""
    rng = np.random.default_rng(seed)
    queries, others = rng.normal(size=[2, 9, 5]).astype(np.float32)
    expected = tfa.losses.npairs_loss(tf.range(9), tf.constant(queries @ others.T))
    y = np.tile(np.arange(9), 2)
    E, q = np.concatenate([queries, others]), np.repeat([1, 0], 9)
    value = losses.NPairLoss(l2_weight=0.0)(y, E, q)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    with_norms = expected + norms_of_tensorflow(queries, others, reg_lambda=0.002)
    np.testing.assert_allclose(losses.NPairLoss()(y, E, q), with_norms, rtol=1e-5)
    angular = losses.AngularLoss(n_pair_weight=0.5)(y, E, q) - losses.AngularLoss()(y, E, q)
    np.testing.assert_allclose(angular, 0.5 * with_norms, rtol=1e-4)


def norms_of_tensorflow(embeddings_anchor, embeddings_positive, reg_lambda):
    """The second part of `tf.contrib.losses.metric_learning.npairs_loss`, which tfa leaves out."""
    reg_anchor = np.mean(np.sum(np.square(embeddings_anchor), 1))
    reg_positive = np.mean(np.sum(np.square(embeddings_positive), 1))
    return np.multiply(0.25 * reg_lambda, reg_anchor + reg_positive)


def test_norms_are_those_of_queries_and_of_positives():
    """Images of length 1, 2, 3 (one class), 4 (alone): each counts once, and the last, in no pair, never."""
    E, y = np.diag([1.0, 2.0, 3.0, 4.0]).astype(np.float32), [0, 0, 0, 1]

    def norms(mask):
        return losses.NPairLoss(l2_weight=4.0)(y, E, mask) - losses.NPairLoss(l2_weight=0.0)(y, E, mask)

    np.testing.assert_allclose(norms([1, 0, 0, 0]), 1.0 + (4.0 + 9.0) / 2, rtol=1e-6)
    np.testing.assert_allclose(norms([1, 1, 0, 1]), (1.0 + 4.0) / 2 + (1.0 + 4.0 + 9.0) / 3, rtol=1e-6)
    np.testing.assert_allclose(norms(None), 2 * (1.0 + 4.0 + 9.0) / 3, rtol=1e-6)
