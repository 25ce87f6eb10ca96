import math

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given

from profs_tf import losses
from tests.losses.loss_cases import unit_rows
from tests.losses.loss_oracle import check_against_loops, oracle_settings, random_batches, variant_settings
from tests.losses.loss_reference import distance_matrix, hard_negatives, pairs_of


@oracle_settings
@given(batch=random_batches())
def test_agrees_with_loops(batch):
    check_against_loops("contrastive", batch)


@pytest.mark.parametrize("name", ["contrastive_hard_per_query", "contrastive_all"])
@variant_settings
@given(batch=random_batches())
def test_variants_agree_with_loops(name, batch):
    check_against_loops(name, batch)


def test_equal_labels_mean_same():
    """Two images of one class are pulled together; of two classes, apart. Nothing else is a pair label."""
    near = np.array([[0.0, 0.0], [0.6, 0.0]], np.float32)
    loss = losses.ContrastiveLoss(margin=1.0)
    assert math.isclose(loss([7, 7], near), 0.36, rel_tol=1e-6)
    # Two classes and no positive pair: no negative is chosen either.
    assert loss([1, 0], near) == 0.0
    four = np.array([[0.0, 0.0], [0.0, 0.1], [0.6, 0.0], [0.6, 0.1]], np.float32)
    # Positive: 0.1 twice. The two closest negative pairs: 0.6 twice.
    expected = (2 * 0.1**2 + 2 * 0.4**2) / 4
    assert math.isclose(loss([0, 0, 1, 1], four), expected, rel_tol=1e-6)
    assert math.isclose(loss([5, 5, -3, -3], four), expected, rel_tol=1e-6)


def test_agrees_with_tfa_on_the_chosen_pairs(tfa):
    rng = np.random.default_rng(0)
    y, E = rng.integers(0, 6, 24), unit_rows(rng, 24)
    for q in (np.ones(24), rng.integers(0, 2, 24)):
        d = distance_matrix(E.astype(np.float64))
        positives, _ = pairs_of(y, q)
        negatives = list(hard_negatives(d, y, q))
        terms = tfa.losses.contrastive_loss(
            tf.constant([1.0] * len(positives) + [0.0] * len(negatives)),
            tf.constant([d[i][j] for i, j in positives + negatives], tf.float32),
            margin=1.0,
        )
        np.testing.assert_allclose(losses.ContrastiveLoss()(y, E, q), np.mean(terms), rtol=1e-5)


def test_hard_choice_of_the_batch_and_of_each_query_differ():
    """Without a mask the closest negatives of the batch; with one, every query takes its own."""
    E = np.array([[0.0], [0.1], [0.3], [0.45], [5.0], [5.3]], np.float32)
    y = [0, 0, 1, 1, 2, 2]
    # Batch: six negatives of 18, the closest: |0.1 - 0.3|, |0 - 0.3|, |0.1 - 0.45|, each in both directions.
    negatives = [0.8**2, 0.7**2, 0.65**2]
    expected = (0.1**2 + 0.15**2 + 0.3**2 + sum(negatives)) / 6
    np.testing.assert_allclose(losses.ContrastiveLoss()(y, E), expected, rtol=1e-5)
    # Queries 0, 2, 4: one negative each; that of 4 is beyond the margin and counts with 0.
    expected = (0.1**2 + 0.15**2 + 0.3**2 + 0.7**2 + 0.8**2 + 0.0) / 6
    np.testing.assert_allclose(losses.ContrastiveLoss()(y, E, [1, 0, 1, 0, 1, 0]), expected, rtol=1e-5)


def test_hard_per_query_chooses_as_profs_does_in_an_ordinary_batch():
    """Every image takes its own closest negative, also 4 and 5, whose closest are beyond the margin."""
    E = np.array([[0.0], [0.1], [0.3], [0.45], [5.0], [5.3]], np.float32)
    y = [0, 0, 1, 1, 2, 2]
    own = [0.7**2, 0.8**2, 0.8**2, 0.65**2, 0.0, 0.0]
    expected = (2 * (0.1**2 + 0.15**2 + 0.3**2) + sum(own)) / 12
    loss = losses.ContrastiveLoss(mining="hard_per_query")
    np.testing.assert_allclose(loss(y, E), expected, rtol=1e-5)
    # With representatives it is what "hard" is.
    q = [1, 0, 1, 0, 1, 0]
    assert loss(y, E, q) == losses.ContrastiveLoss()(y, E, q)
