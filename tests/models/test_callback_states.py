"""States of callbacks in a checkpoint: plain values, arrays, and those of Keras's callbacks."""

import numpy as np
import tensorflow as tf

from profs_tf.models.callback_states import CallbackStates, states_of


class Counts:
    def __init__(self, value):
        self.value = value

    def state(self):
        return self.value

    def restore(self, state):
        self.value = state


def test_values_and_arrays_go_round_and_unknown_states_are_left_out():
    saved = CallbackStates({"one": Counts({"n": 1, "x": np.arange(3)}), "gone": Counts({"n": 2})}).serialize()
    one = Counts(None)
    CallbackStates({"one": one}).deserialize(saved)
    assert one.value["n"] == 1
    np.testing.assert_array_equal(one.value["x"], [0, 1, 2])


def test_callbacks_of_one_kind_have_names_of_their_own():
    callbacks = [tf.keras.callbacks.EarlyStopping() for _ in range(2)]
    callbacks += [tf.keras.callbacks.History(), Counts({})]
    assert list(states_of(callbacks)) == ["EarlyStopping_0", "EarlyStopping_1", "Counts_0"]


def test_early_stopping_keeps_its_patience_and_its_best_weights():
    stopping, fresh = (tf.keras.callbacks.EarlyStopping(restore_best_weights=True) for _ in range(2))
    for callback in (stopping, fresh):
        callback.on_train_begin()
    stopping.wait, stopping.best, stopping.best_weights = 2, np.float32(0.5), [np.ones(2), np.zeros(3)]
    saved = CallbackStates(states_of([stopping])).serialize()
    CallbackStates(states_of([fresh])).deserialize(saved)
    assert (fresh.wait, float(fresh.best)) == (2, 0.5)
    for got, expected in zip(fresh.best_weights, stopping.best_weights):
        np.testing.assert_array_equal(got, expected)
