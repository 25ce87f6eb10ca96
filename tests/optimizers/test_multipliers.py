"""Which variable gets which multiplier, by the variable itself, by name, and by default."""

import numpy as np
import pytest
import tensorflow as tf

from profs_tf.optimizers.head_adam import HeadAdam
from tests.optimizers.optimizer_cases import (
    RATE,
    assert_numpy,
    gradients,
    train,
    values,
    variables,
    with_multipliers,
)


@pytest.mark.parametrize("multiplier", [-1.0, float("nan"), float("inf")])
def test_bad_multiplier_is_refused(multiplier):
    with pytest.raises(ValueError, match=rf"`multiplier` must be a finite number >= 0, got {multiplier}\."):
        HeadAdam().set_multiplier(variables(), multiplier)
    with pytest.raises(ValueError, match=r"`multiplier` must be"):
        HeadAdam(multipliers={"a:0": multiplier})


@pytest.mark.parametrize("before", [None, 1.0], ids=["first set while training", "changed"])
def test_multiplier_changes_between_steps_of_a_compiled_loop(before):
    optimizer, trained = with_multipliers((None, before, None))
    optimizer.build(trained)
    compiled = tf.function(lambda *grads: optimizer.apply_gradients(zip(grads, trained)))
    for t, grads in enumerate(gradients(10)):
        if t == 5:
            optimizer.set_multiplier(trained[1:2], 4.0)
        compiled(*[tf.constant(grad) for grad in grads])
    assert_numpy(values(trained), [[RATE] * 10, [RATE] * 5 + [4 * RATE] * 5, [RATE] * 10])


def test_multiplier_zero_freezes():
    optimizer, trained = with_multipliers((0.0, None, None))
    start = values(trained)
    got = train(optimizer, trained=trained)
    np.testing.assert_array_equal(got[0], start[0])
    assert np.all(got[1] != start[1])


def test_a_default_gives_way_to_a_later_default_and_to_every_choice():
    optimizer, trained = HeadAdam(RATE, multipliers={"b:0": 8.0}), variables()
    optimizer.set_multiplier(trained[:1], 4.0)
    for rate in (RATE, 2 * RATE):
        optimizer.set_default_rate(trained, rate)
    optimizer.build(trained)
    assert optimizer.get_config()["multipliers"] == {"a:0": 4.0, "b:0": 8.0, "c:0": 2.0}


def test_names_without_a_variable_are_refused():
    with pytest.raises(
        ValueError, match=r"`multipliers` must name single variables, got 'x:0'.*a:0, b:0, c:0"
    ):
        train(HeadAdam(multipliers={"x:0": 2.0}))


def test_names_of_several_variables_are_refused():
    optimizer = HeadAdam(multipliers={"w:0": 2.0})
    with pytest.raises(ValueError, match=r"got 'w:0', which names 2 of"):
        optimizer.build([tf.Variable(0.0, name="w"), tf.Variable(0.0, name="w")])


def test_one_name_with_two_multipliers_cannot_be_configured():
    optimizer = HeadAdam()
    optimizer.set_multiplier([tf.Variable(0.0, name="w")], 2.0)
    optimizer.set_multiplier([tf.Variable(0.0, name="w")], 3.0)
    with pytest.raises(
        ValueError, match=r"told apart by the variables' names, got 'w:0' with 2.0 and with 3.0"
    ):
        optimizer.get_config()
