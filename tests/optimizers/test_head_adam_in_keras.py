"""HeadAdam in checkpoints, under loss scaling, in configurations and saved models."""

import numpy as np
import pytest
import tensorflow as tf

from profs_tf.optimizers.head_adam import HeadAdam, head_adam
from tests.optimizers.optimizer_cases import (
    RATE,
    assert_equal,
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


class TestCheckpoint:
    def interrupted(self, tmp_path, build_before_restore, resumed_class=HeadAdam):
        optimizer, trained = with_multipliers((None, 8.0, 0.25))
        for grads in gradients(10)[:5]:
            step(optimizer, grads, trained)
        path = tf.train.Checkpoint(optimizer=optimizer, variables=trained).write(str(tmp_path / "checkpoint"))
        resumed, restored = with_multipliers((None, 8.0, 0.25))
        if build_before_restore:
            resumed.build(restored)
        status = tf.train.Checkpoint(optimizer=resumed, variables=restored).read(path)
        for grads in gradients(10)[5:]:
            step(resumed, grads, restored)
        status.assert_consumed()
        return resumed, values(restored)

    @pytest.mark.parametrize("build_before_restore", [True, False], ids=["built", "deferred"])
    def test_resumed_run_equals_an_uninterrupted_one_in_every_bit(self, tmp_path, build_before_restore):
        whole, trained = with_multipliers((None, 8.0, 0.25))
        want = train(whole, trained=trained)
        resumed, got = self.interrupted(tmp_path, build_before_restore)
        assert_equal(got, want)
        assert_equal(values(resumed.variables), values(whole.variables))
        assert resumed.iterations.numpy() == 10

    @pytest.mark.parametrize(
        "written_by", [HeadAdam, tf.keras.optimizers.Adam], ids=["by HeadAdam", "by Adam"]
    )
    def test_keras_adam_and_head_adam_read_each_other(self, tmp_path, written_by):
        read_by = tf.keras.optimizers.Adam if written_by is HeadAdam else HeadAdam
        written, trained = written_by(RATE), variables()
        if written_by is HeadAdam:
            written.set_multiplier(trained, 8.0)
        train(written, trained=trained)
        path = tf.train.Checkpoint(optimizer=written).write(str(tmp_path / "checkpoint"))
        read = read_by(0.5)
        read.build(trained)
        tf.train.Checkpoint(optimizer=read).read(path).assert_consumed()
        assert_equal(values(read.variables), values(written.variables))

    def test_restoring_keeps_the_multiplier_that_the_program_set(self, tmp_path):
        before, trained = with_multipliers((None, 8.0, None))
        train(before, trained=trained)
        path = tf.train.Checkpoint(optimizer=before).write(str(tmp_path / "checkpoint"))
        after, other = with_multipliers((None, 2.0, None))
        after.build(other)
        tf.train.Checkpoint(optimizer=after).read(path)
        assert after.get_config()["multipliers"] == {"b:0": 2.0}


class TestLossScaling:
    def test_wrapped_optimizer_updates_alike(self):
        optimizer, trained = with_multipliers((None, 8.0, 0.25))
        wrapped = tf.keras.mixed_precision.LossScaleOptimizer(optimizer, dynamic=False, initial_scale=4.0)
        for grads in gradients(10):
            scaled = [tf.constant(np.float32(4) * grad) for grad in grads]
            step(wrapped, wrapped.get_unscaled_gradients(scaled), trained)
        assert_numpy(values(trained), [[RATE] * 10, [8 * RATE] * 10, [RATE / 4] * 10])

    def test_step_with_overflow_is_skipped(self):
        optimizer, trained = with_multipliers((None, 8.0, 0.25))
        wrapped = tf.keras.mixed_precision.LossScaleOptimizer(optimizer)
        start = values(trained)
        infinite = [tf.fill(variable.shape, float("inf")) for variable in trained]
        step(wrapped, wrapped.get_unscaled_gradients(infinite), trained)
        assert_equal(values(trained), start)

    def test_under_the_mixed_precision_policy(self):
        tf.keras.mixed_precision.set_global_policy("mixed_float16")
        try:
            model = embedder()
            model.compile(head_adam(model, 1e-3, head_multiplier=8.0), loss=small_output_sum)
        finally:
            tf.keras.mixed_precision.set_global_policy("float32")
        start = values(model.trainable_variables)
        model.fit(tf.ones((1, 5)), tf.zeros((1, 1)), verbose=0)
        moved = [abs(new - old).max() for new, old in zip(values(model.trainable_variables), start)]
        np.testing.assert_allclose(moved, [1e-3, 1e-3, 8e-3, 8e-3], rtol=0.02)


class TestConfig:
    def test_round_trip_trains_alike(self):
        optimizer, trained = with_multipliers((None, 8.0, 0.25), clipnorm=0.5)
        config = optimizer.get_config()
        assert config["multipliers"] == {"b:0": 8.0, "c:0": 0.25}
        want = train(optimizer, trained=trained)
        assert_equal(train(HeadAdam.from_config(config)), want)
        assert_equal(train(HeadAdam.from_config(HeadAdam.from_config(config).get_config())), want)

    def test_round_trip_by_registered_name(self):
        optimizer, _ = with_multipliers((None, 8.0, None))
        loaded = tf.keras.optimizers.deserialize(tf.keras.optimizers.serialize(optimizer))
        assert type(loaded) is HeadAdam
        assert loaded.get_config() == optimizer.get_config()

    def test_round_trip_of_a_schedule(self):
        schedule = tf.keras.optimizers.schedules.ExponentialDecay(RATE, 3, 0.5)
        want = train(HeadAdam(schedule, multipliers={"b:0": 8.0}))
        config = HeadAdam(schedule, multipliers={"b:0": 8.0}).get_config()
        assert_equal(train(HeadAdam.from_config(config)), want)

    def test_a_compiled_keras_model_trains_on_after_saving_and_loading(self, tmp_path):
        model = embedder()
        model.compile(head_adam(model, 1e-3, head_multiplier=8.0), loss="mse")
        inputs, targets = tf.ones((4, 5)), tf.zeros((4, 3))
        model.fit(inputs, targets, epochs=2, verbose=0)
        model.save(str(tmp_path / "model.keras"))
        loaded = tf.keras.models.load_model(str(tmp_path / "model.keras"))
        for each in (model, loaded):
            each.fit(inputs, targets, epochs=2, verbose=0)
        assert type(loaded.optimizer) is HeadAdam
        assert_equal(values(loaded.variables), values(model.variables))
        assert_equal(values(loaded.optimizer.variables), values(model.optimizer.variables))
