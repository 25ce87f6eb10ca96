import math

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given

from profs_tf import losses
from tests.losses.loss_cases import unit_rows, value_and_gradients
from tests.losses.loss_oracle import check_against_loops, oracle_settings, random_batches, variant_settings

VARIANTS = [
    "margin_per_class",
    "margin_hard_per_query",
    "margin_distance_weighted",
    "margin_all_fixed_boundary",
]


@oracle_settings
@given(batch=random_batches())
def test_agrees_with_loops(batch):
    check_against_loops("margin", batch)


@pytest.mark.parametrize("name", VARIANTS)
@variant_settings
@given(batch=random_batches())
def test_variants_agree_with_loops(name, batch):
    check_against_loops(name, batch)


def test_divides_by_the_terms_that_are_not_zero():
    """Distances 1.1 (positive) and 1.0, 1.3, 9 (negative) at boundary 1.2 and margin 0.2."""
    E = np.array([[0.0], [1.1], [20.0], [20.5], [-1.0], [-1.3]], np.float32)
    y = [0, 0, 1, 1, 2, 3]
    terms = [1.1 - 1.0, 1.4 - 1.0]  # query 2 has its positive at 0.5 and its closest negative beyond 1.4
    value = losses.MarginLoss()(y, E, [1, 0, 1, 0, 0, 0])
    assert math.isclose(value, sum(terms) / 2, rel_tol=1e-5)


@pytest.mark.parametrize("per_class", [False, True])
def test_gradient_of_the_boundary(per_class):
    """-1 of each active positive term, +1 of each active negative one, over their number."""
    E = np.array([[0.0], [1.1], [-1.0], [-1.3]], np.float32)
    y = [0, 0, 1, 2]
    loss = losses.MarginLoss(boundary_per_class=per_class, num_classes=3 if per_class else None)
    # Positives of class 0: 1.1 twice. Closest two negatives: 0.3, between classes 1 and 2, twice.
    _, (_, gradient) = value_and_gradients(loss, y, E)
    expected = [-2 / 4, 1 / 4, 1 / 4] if per_class else 0.0
    np.testing.assert_allclose(gradient, expected, atol=1e-6)
    # With query 0 only: its positive at 1.1 and its closest negative at 1.0.
    _, (_, gradient) = value_and_gradients(loss, y, E, [1, 0, 0, 0])
    np.testing.assert_allclose(gradient, [0.0, 0.0, 0.0] if per_class else 0.0, atol=1e-6)
    # With query 1 only: its closest negative is at 2.1, which costs nothing.
    _, (_, gradient) = value_and_gradients(loss, y, E, [0, 1, 0, 0])
    np.testing.assert_allclose(gradient, [-1.0, 0.0, 0.0] if per_class else -1.0, atol=1e-6)


def test_boundary_per_class_is_the_query_s():
    loss = losses.MarginLoss(boundary_per_class=True, num_classes=2)
    loss.boundary.assign([0.5, 1.5])
    E = np.array([[0.0], [1.0], [2.0], [3.0]], np.float32)
    y = [0, 0, 1, 1]
    # Query 0: positive at 1 costs 0.7, negative at 2 nothing. Query 2: positive nothing, negative at 1 0.7.
    assert math.isclose(loss(y, E, [1, 0, 0, 0]), 0.7, rel_tol=1e-6)
    assert math.isclose(loss(y, E, [0, 0, 1, 0]), 0.7, rel_tol=1e-6)


def test_mined_pairs_of_equal_distance_share_their_boundaries():
    """The third place goes to two pairs of different queries; the order of the batch must not choose."""
    loss = losses.MarginLoss(boundary_per_class=True, num_classes=4, margin=0.5)
    loss.boundary.assign([0.5, 1.0, 1.5, 2.0])
    E = np.zeros([5, 3], np.float32)
    y = np.array([0, 0, 1, 2, 3])
    values = {float(loss(y[order], E)) for order in (np.arange(5), [4, 3, 2, 1, 0], [2, 0, 4, 1, 3])}
    assert max(values) - min(values) < 1e-6


def test_label_without_a_boundary_is_refused():
    loss = losses.MarginLoss(boundary_per_class=True, num_classes=3)
    E = tf.constant(unit_rows(np.random.default_rng(0), 4))
    graph = tf.function(loss, autograph=False)
    # It drops assertions.
    xla = tf.function(loss, autograph=False, jit_compile=True)
    for bad in (3, -1, 1.5):
        y = [0, 0, 1, bad]
        for run, labels in ((loss, np.array(y)), (graph, tf.constant(y, tf.float32))):
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"whole numbers 0 \.\.\. 2"):
                run(labels, E)
        assert np.isnan(xla(tf.constant(y, tf.float32), E))


def test_needs_the_number_of_classes_for_a_boundary_each():
    with pytest.raises(ValueError, match="`num_classes` must be a whole number >= 1, got None."):
        losses.MarginLoss(boundary_per_class=True)


def test_all_pairs_and_a_fixed_boundary_are_equation_4_6():
    """The sum over (k_l, j) of [d - near]+ and [far - d]+, here divided by the number of violated ones."""
    near, far = 0.8, 1.2
    rng = np.random.default_rng(0)
    E, y, q = unit_rows(rng, 24), np.repeat(np.arange(6), 4), np.tile([1.0, 0.0, 0.0, 0.0], 6)
    d = np.linalg.norm(E[:, None].astype(np.float64) - E, axis=2)
    same, is_pair = y[:, None] == y, (q[:, None] > 0) & ~np.eye(24, dtype=bool)
    violations = np.where(same, d - near, far - d)[is_pair]
    expected = np.maximum(violations, 0.0).sum() / np.sum(violations > 0.0)
    loss = losses.MarginLoss(boundary=1.0, margin=0.2, mining="all", trainable_boundary=False)
    np.testing.assert_allclose(loss(y, E, q), expected, rtol=1e-5)


def test_a_fixed_boundary_is_not_trained_but_saved():
    loss = losses.MarginLoss(boundary=0.7, trainable_boundary=False)
    assert loss.trainable_variables == ()
    assert [variable.name for variable in loss.variables] == ["boundary:0"]
    again = losses.MarginLoss.from_config(loss.get_config())
    assert again.trainable_variables == ()
    assert again.boundary == np.float32(0.7)
