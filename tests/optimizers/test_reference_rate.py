"""The rate that stands for a schedule, and what comes of it for a loss's own variables."""

import numpy as np
import pytest
import tensorflow as tf

import profs_tf as profs
from profs_tf.optimizers.head_adam import HeadAdam
from profs_tf.optimizers.reference_rate import reference_of
from tests.optimizers.optimizer_cases import RATE, variables

schedules = tf.keras.optimizers.schedules


class OwnSchedule(schedules.LearningRateSchedule):
    def __call__(self, step):
        return tf.cast(step, tf.float32) * 1e-4

    def get_config(self):
        return {}


@pytest.mark.parametrize(
    ("learning_rate", "reference"),
    [
        (0.25, 0.25),
        (schedules.CosineDecay(0.0, 200, warmup_target=0.5, warmup_steps=20), 0.5),
        (schedules.CosineDecay(0.25, 200), 0.25),
        (schedules.CosineDecayRestarts(0.25, 10), 0.25),
        (schedules.ExponentialDecay(0.25, 10, 0.5), 0.25),
        (schedules.InverseTimeDecay(0.25, 10, 0.5), 0.25),
        (schedules.PiecewiseConstantDecay([3], [0.25, 0.5]), 0.5),
        (schedules.PolynomialDecay(0.0, 10, 0.5), 0.5),
        (OwnSchedule(), None),
        # They grow without end, as in a search for the rate.
        (schedules.ExponentialDecay(1e-7, 10, 2.0), None),
        (schedules.CosineDecayRestarts(1e-7, 10, m_mul=1.5), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_reference_is_the_peak(learning_rate, reference):
    assert reference_of(learning_rate) == reference


def boundaries(first, steps=40):
    """The boundary of a margin loss after each step of 40, trained with a warm-up from ``first``."""
    images = tf.keras.Input([4])
    kernel = tf.keras.initializers.HeNormal(seed=1)
    embedder = tf.keras.Model(
        images, tf.keras.layers.Dense(3, kernel_initializer=kernel, name="head")(images)
    )
    schedule = schedules.CosineDecay(first, 200, warmup_target=1e-3, warmup_steps=20)
    model = profs.ProfsModel(embedder, proximal_weight=0.0)
    loss = profs.losses.MarginLoss()
    model.compile(profs.head_adam(embedder, schedule), loss)
    labels, seen = np.repeat(np.arange(4), 2), []
    features = np.random.default_rng(0).normal(size=(8, 4)).astype("f")
    record = tf.keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda *_: seen.append(loss.boundary.numpy())
    )
    data = tf.data.Dataset.from_tensors((features, labels)).repeat()
    model.fit(data, steps_per_epoch=steps, callbacks=[record], verbose=0)
    return np.array(seen), schedule


def test_where_a_warm_up_starts_does_not_set_the_rate_of_the_loss():
    paths = {first: boundaries(first) for first in (1e-5, 1e-7, 0.0)}
    for path, schedule in paths.values():
        # Adam moves a variable whose gradient keeps its sign by its learning rate: the loss's, times the
        # schedule's value over its peak.
        rates = [float(schedule(step)) / 1e-3 * profs.losses.MarginLoss().learning_rate for step in range(40)]
        assert np.all(np.abs(np.diff(path)) <= np.array(rates[1:]) * 1.5 + 1e-9)
    np.testing.assert_allclose(paths[1e-5][0], paths[0.0][0], atol=2e-3)
    np.testing.assert_allclose(paths[1e-7][0], paths[0.0][0], atol=2e-3)


def test_a_schedule_of_ones_own_needs_the_reference():
    with pytest.raises(ValueError, match=r"`reference_learning_rate` must be given .* absolute rate 0.01"):
        HeadAdam(OwnSchedule()).set_learning_rate(variables(), 0.01)
    optimizer = HeadAdam(OwnSchedule(), reference_learning_rate=2 * RATE)
    optimizer.set_learning_rate(variables()[:1], 8 * RATE)
    assert optimizer.get_config()["multipliers"] == {"a:0": 4.0}
    assert optimizer.get_config()["reference_learning_rate"] == 2 * RATE


def test_no_multiplier_makes_up_for_a_rate_of_zero():
    with pytest.raises(ValueError, match="`reference_learning_rate` must be given with a learning rate of 0"):
        HeadAdam(0.0).set_learning_rate(variables(), 0.01)


@pytest.mark.parametrize("reference", [0.0, -1.0, float("inf")])
def test_bad_reference_is_refused(reference):
    with pytest.raises(ValueError, match=f"`reference_learning_rate` must be > 0, got {reference}"):
        HeadAdam(reference_learning_rate=reference)
