"""The proximal term by itself: its value and gradient, matched to variables."""

import numpy as np
import pytest
import tensorflow as tf

from profs_tf.models.proximal import ProximalTerm

STEP = tf.constant(0, tf.int64)


def moved_term(weight=0.5):
    """Anchors at 1, 2, 3; the variables moved by 1, 2, 3."""
    variables = [tf.Variable([float(value)] * 2, name=f"w{value}") for value in (1, 2, 3)]
    term = ProximalTerm(variables, weight)
    for variable in variables:
        variable.assign_add(variable)
    return term, variables


def test_penalty_and_gradient_of_equation_4_7():
    term, variables = moved_term()
    penalty, gradients = term.penalty_and_gradients(variables, STEP)
    assert float(penalty) == 0.5 / 2 * 2 * (1 + 4 + 9)
    for gradient, distance in zip(gradients, (1.0, 2.0, 3.0)):
        np.testing.assert_array_equal(gradient, [0.5 * distance] * 2)


def test_each_variable_is_pulled_to_its_own_anchor_in_any_order_and_number():
    term, (first, second, third) = moved_term()
    penalty, gradients = term.penalty_and_gradients([third, first], STEP)
    assert float(penalty) == 0.5 / 2 * 2 * (9 + 1)
    np.testing.assert_array_equal(gradients, [[1.5, 1.5], [0.5, 0.5]])
    with pytest.raises(ValueError, match="w9:0 has no anchor weights. Compile the model again"):
        term.penalty_and_gradients([second, tf.Variable([0.0], name="w9")], STEP)


def test_the_gradient_is_added_to_the_loss_s_and_stands_alone_where_that_has_none():
    term, variables = moved_term()
    loss_gradients = [tf.constant([1.0, 1.0]), None, tf.constant([2.0, 2.0])]
    _, gradients = term.add_gradients(loss_gradients, variables, STEP)
    np.testing.assert_array_equal(gradients, [[1.5, 1.5], [1.0, 1.0], [3.5, 3.5]])
    inactive, _ = moved_term(0.0)
    penalty, gradients = inactive.add_gradients(loss_gradients, variables, STEP)
    assert float(penalty) == 0.0
    assert gradients == loss_gradients


def test_without_variables_there_is_no_penalty():
    penalty, gradients = ProximalTerm([], 0.5).penalty_and_gradients([], STEP)
    assert float(penalty) == 0.0
    assert gradients == []


def test_swap_moves_the_anchors():
    term, variables = moved_term()
    assert not term.in_use
    term.swap(7)
    assert term.in_use
    assert int(term.projection_index) == 7
    np.testing.assert_array_equal(term.anchors_of(variables)[2], [6.0, 6.0])


def test_without_a_first_pull_lambda_is_0_in_projection_0_only():
    term, variables = moved_term()
    assert term.move_anchors(lagged=False, first_projection_pull=False)
    assert not term.move_anchors(lagged=False, first_projection_pull=False)
    weights = [np.full([2], 5.0, np.float32)] * 3
    for index, expected in ((0, 0.0), (1, 0.5)):
        term.swap_to(weights, index)
        assert float(term.weight_at(STEP)) == expected
    np.testing.assert_array_equal(term.anchors_of(variables)[2], weights[2])
    before = term.weights()
    term.restore(weights)
    np.testing.assert_array_equal(variables[0], weights[0])
    np.testing.assert_array_equal(before[0], [2.0, 2.0])
    # As other callbacks leave it.
    assert term.move_anchors(lagged=False)
    term.swap_to(weights, 0)
    assert float(term.weight_at(STEP)) == 0.5
