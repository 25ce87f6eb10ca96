"""The learning rate of HeadAdam: read, set, scheduled and changed by callbacks."""

import numpy as np
import pytest
import tensorflow as tf

from profs_tf.optimizers.head_adam import HeadAdam, head_adam
from tests.optimizers.optimizer_cases import (
    BETA_2,
    RATE,
    assert_numpy,
    embedder,
    gradients,
    small_output_sum,
    step,
    train,
    values,
    variables,
    with_multipliers,
)


class MovesByEpoch(tf.keras.callbacks.Callback):
    """How far each variable's first element moves in an epoch; its learning rate, for constant gradients."""

    def on_train_begin(self, logs=None):
        self.of = {variable.name: [] for variable in self.model.trainable_variables}

    def on_epoch_begin(self, epoch, logs=None):
        self._start = values(self.model.trainable_variables)

    def on_epoch_end(self, epoch, logs=None):
        for variable, start in zip(self.model.trainable_variables, self._start):
            self.of[variable.name].append(abs(variable.numpy() - start).flat[0])


def test_learning_rate_reads_as_the_base_rate():
    optimizer, trained = with_multipliers((None, 8.0, None))
    train(optimizer, trained=trained)
    assert optimizer.learning_rate.numpy() == RATE
    assert optimizer.lr.numpy() == RATE


def test_setting_learning_rate_scales_all_rates():
    optimizer, trained = with_multipliers((None, 8.0, None))
    for t, grads in enumerate(gradients(10)):
        if t == 4:
            optimizer.learning_rate = RATE / 2
        step(optimizer, grads, trained)
    base = [RATE] * 4 + [RATE / 2] * 6
    assert_numpy(values(trained), [base, [8 * rate for rate in base], base])


def test_a_schedule_scales_all_rates():
    schedule = tf.keras.optimizers.schedules.PiecewiseConstantDecay([3, 6], [RATE, RATE / 2, RATE / 4])
    optimizer = HeadAdam(schedule, beta_2=BETA_2)
    trained = variables()
    optimizer.set_multiplier(trained[1:2], 8.0)
    optimizer.set_learning_rate(trained[2:], 3 * RATE)
    got = train(optimizer, trained=trained)
    base = [RATE] * 4 + [RATE / 2] * 3 + [RATE / 4] * 3
    assert_numpy(got, [base, [8 * rate for rate in base], [3 * rate for rate in base]])
    assert optimizer.learning_rate.numpy() == RATE / 4


def test_absolute_rate_is_one_now_and_follows_the_base_later():
    optimizer = HeadAdam(RATE, beta_2=BETA_2)
    trained = variables()
    optimizer.learning_rate = 2 * RATE
    optimizer.set_learning_rate(trained[:1], 6 * RATE)
    for t, grads in enumerate(gradients(10)):
        if t == 4:
            optimizer.learning_rate = RATE
        step(optimizer, grads, trained)
    base = [2 * RATE] * 4 + [RATE] * 6
    assert_numpy(values(trained), [[3 * rate for rate in base], base, base])


@pytest.mark.parametrize("name", ["scheduler", "plateau"])
def test_callbacks_of_fit(name):
    """The callback divides the rate by ten after the second epoch, on the plateau again after it."""
    model = embedder()
    optimizer = head_adam(model, 1e-3, head_multiplier=8.0)
    model.compile(optimizer, loss=small_output_sum)
    callback = {
        "scheduler": tf.keras.callbacks.LearningRateScheduler(
            lambda epoch, rate: 1e-3 if epoch < 2 else 1e-4
        ),
        "plateau": tf.keras.callbacks.ReduceLROnPlateau("loss", factor=0.1, patience=1, min_delta=1e6),
    }[name]
    moves = MovesByEpoch()
    data = tf.data.Dataset.from_tensors((tf.ones((1, 5)), tf.zeros((1, 1))))
    model.fit(data, epochs=3, callbacks=[moves, callback], verbose=0)
    np.testing.assert_allclose(moves.of["body/bias:0"], [1e-3, 1e-3, 1e-4], rtol=0.02)
    np.testing.assert_allclose(moves.of["head/bias:0"], [8e-3, 8e-3, 8e-4], rtol=0.02)
    last = {"scheduler": 1e-4, "plateau": 1e-5}[name]
    np.testing.assert_allclose(optimizer.learning_rate, last, rtol=1e-6)
