"""HeadAdam against Adam written out in NumPy, and against Keras's own."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from profs_tf.models.head import head_variables
from profs_tf.optimizers.head_adam import HeadAdam, head_adam
from tests.optimizers.optimizer_cases import (
    BETA_2,
    RATE,
    assert_equal,
    assert_numpy,
    embedder,
    gradients,
    numpy_adam,
    step,
    train,
    values,
    variables,
    with_multipliers,
)


def test_ten_steps_equal_adam_with_a_rate_for_each_variable():
    optimizer = HeadAdam(1e-3, beta_2=BETA_2)
    trained = variables()
    optimizer.set_multiplier(trained[1:2], 10.0)
    optimizer.set_learning_rate(trained[2:], 5e-4)
    assert_numpy(train(optimizer, trained=trained), [[1e-3] * 10, [1e-2] * 10, [5e-4] * 10])


@settings(deadline=None, max_examples=15)
@given(
    multipliers=st.lists(st.floats(0, 100, width=32), min_size=3, max_size=3),
    base=st.floats(1e-5, 1e-1),
)
def test_any_multipliers_equal_numpy(multipliers, base):
    optimizer = HeadAdam(base, beta_2=BETA_2)
    trained = variables()
    for variable, multiplier in zip(trained, multipliers):
        optimizer.set_multiplier([variable], multiplier)
    got = train(optimizer, steps=3, trained=trained)
    grads = gradients(3)
    for i, start in enumerate(values(variables())):
        rate = multipliers[i] * base
        want = numpy_adam(start, [grads[t][i] for t in range(3)], [rate] * 3)
        np.testing.assert_allclose(got[i], want, rtol=2e-6, atol=2e-6 * max(1.0, 10 * rate))


ADAM_OPTIONS = [
    {},
    {"amsgrad": True},
    {"clipnorm": 0.5},
    {"global_clipnorm": 0.5},
    {"clipvalue": 0.1},
    {"weight_decay": 0.01},
    {"use_ema": True, "ema_overwrite_frequency": 4},
]


@pytest.mark.parametrize("options", ADAM_OPTIONS, ids=lambda options: next(iter(options), "plain"))
@pytest.mark.parametrize("multipliers", [(None, None, None), (1.0, 1.0, 1.0)], ids=["unset", "one"])
def test_is_keras_adam_bit_for_bit_where_multipliers_are_one(options, multipliers):
    optimizer, trained = with_multipliers(multipliers, **options)
    got = train(optimizer, trained=trained)
    assert_equal(got, train(tf.keras.optimizers.Adam(RATE, beta_2=BETA_2, **options)))


@pytest.mark.parametrize("options", [{}, {"amsgrad": True}, {"clipnorm": 0.5}], ids=str)
def test_multiplied_variable_is_keras_adam_with_the_multiplied_rate(options):
    optimizer, trained = with_multipliers((None, 8.0, 0.25), **options)
    got = train(optimizer, trained=trained)
    for i, multiplier in enumerate((1.0, 8.0, 0.25)):
        want = train(tf.keras.optimizers.Adam(RATE * multiplier, beta_2=BETA_2, **options))
        np.testing.assert_array_equal(got[i], want[i])


def test_weight_decay_takes_the_base_rate_for_every_variable():
    optimizer, trained = with_multipliers((None, 8.0, None), weight_decay=0.5)
    start = trained[1].numpy()
    step(optimizer, [np.zeros(variable.shape, "f") for variable in trained], trained)
    np.testing.assert_allclose(trained[1], start * (1 - 0.5 * RATE), rtol=1e-6)


def test_a_variable_with_multiplier_zero_does_not_decay():
    optimizer, trained = with_multipliers((None, 0.0, None), weight_decay=0.5)
    start = values(trained)
    step(optimizer, [np.ones(variable.shape, "f") for variable in trained], trained)
    np.testing.assert_array_equal(trained[1], start[1])
    np.testing.assert_allclose(trained[0], start[0] * (1 - 0.5 * RATE) - RATE, rtol=1e-4)
    assert [optimizer.multiplier_of(variable) for variable in trained] == [1.0, 0.0, 1.0]


def test_sparse_gradients():
    """Rows 0 and 2 of a table, row 0 twice, as an embedding look-up yields them."""
    start = np.arange(8, dtype="f").reshape(4, 2)
    rows = tf.IndexedSlices(
        tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, -6.0]]), tf.constant([0, 2, 0]), [4, 2]
    )
    dense = tf.constant([[6.0, -4.0], [0.0, 0.0], [3.0, 4.0], [0.0, 0.0]])
    table, other = tf.Variable(start), tf.Variable(start)
    optimizer = HeadAdam(RATE, beta_2=BETA_2)
    optimizer.set_multiplier([table], 8.0)
    reference = tf.keras.optimizers.Adam(RATE * 8, beta_2=BETA_2)
    for _ in range(3):
        optimizer.apply_gradients([(rows, table)])
        reference.apply_gradients([(dense, other)])
    np.testing.assert_allclose(table, other, rtol=1e-6)
    assert np.all(table.numpy()[[0, 2]] != start[[0, 2]])
    np.testing.assert_array_equal(table.numpy()[[1, 3]], start[[1, 3]])


def compiled_train(optimizer, trained, **function_options):
    optimizer.build(trained)
    compiled = tf.function(lambda *grads: optimizer.apply_gradients(zip(grads, trained)), **function_options)
    for grads in gradients(10):
        compiled(*[tf.constant(grad) for grad in grads])
    return values(trained)


@pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "xla"])
def test_compiled_steps_equal_eager_ones(jit_compile):
    eager, start = with_multipliers((None, 8.0, 0.25))
    want = train(eager, trained=start)
    optimizer, trained = with_multipliers((None, 8.0, 0.25))
    got = compiled_train(optimizer, trained, jit_compile=jit_compile)
    for left, right in zip(got, want):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-6)


def test_update_compiled_variable_by_variable():
    """What ``jit_compile`` of the optimizer does where there is a GPU; without one Keras switches it off."""
    optimizer, trained = with_multipliers((None, 8.0, 0.25))
    optimizer.jit_compile = True
    got = train(optimizer, trained=trained)
    assert_numpy(got, [[RATE] * 10, [RATE * 8] * 10, [RATE / 4] * 10])


class TestHeadAdam:
    def test_defaults_are_those_of_the_paper(self):
        model = embedder()
        config = head_adam(model).get_config()
        assert config["learning_rate"] == pytest.approx(1e-4)
        assert (config["beta_1"], config["beta_2"]) == (0.9, 0.99)
        assert config["multipliers"] == {"head/kernel:0": 10.0, "head/bias:0": 10.0}

    @pytest.mark.parametrize("how", ["name", "layer", "variables"])
    def test_head_of_another_name(self, how):
        model = embedder(head="projection")
        layer = model.get_layer("projection")
        head_layer = {"name": "projection", "layer": layer, "variables": layer.trainable_variables}[how]
        config = head_adam(model, head_multiplier=3.0, head_layer=head_layer).get_config()
        assert config["multipliers"] == {"projection/kernel:0": 3.0, "projection/bias:0": 3.0}

    def test_options_reach_adam(self):
        assert head_adam(embedder(), clipnorm=0.5, epsilon=0.1).get_config()["clipnorm"] == 0.5

    def test_unknown_head_is_refused_with_the_layers_there_are(self):
        with pytest.raises(
            ValueError, match=r"`head_layer` must name one layer.*'head'.*`head_layer=`.*body, top"
        ):
            head_adam(embedder(head="top"))

    def test_empty_list_is_refused(self):
        with pytest.raises(ValueError, match=r"`head_layer` must hold at least one variable"):
            head_adam(embedder(), head_layer=[])

    @pytest.mark.parametrize("rate", [-1e-3, float("nan"), float("inf")])
    def test_bad_rate_is_refused(self, rate):
        with pytest.raises(ValueError, match=f"`learning_rate` must be >= 0 and finite, got {rate}"):
            head_adam(embedder(), rate)

    def test_only_the_head_moves_faster(self):
        model = embedder()
        optimizer = head_adam(model, RATE, head_multiplier=8.0)
        start = values(model.trainable_variables)
        ones = [np.ones(variable.shape, "f") for variable in model.trainable_variables]
        step(optimizer, ones, model.trainable_variables)
        head = {variable.ref() for variable in head_variables(model)}
        for variable, before in zip(model.trainable_variables, start):
            rate = RATE * 8 if variable.ref() in head else RATE
            np.testing.assert_allclose(before - variable.numpy(), np.full(before.shape, rate), rtol=1e-4)


def test_two_replicas_compute_what_one_does():
    """In a process of its own, since virtual devices can only be made before TensorFlow starts."""
    program = """
        import numpy as np, tensorflow as tf
        from profs_tf.optimizers.head_adam import HeadAdam
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        with strategy.scope():
            trained = [tf.Variable([1.0, 2.0], name="a"), tf.Variable([3.0, 4.0], name="b")]
            optimizer = HeadAdam(2.0**-7, multipliers={"a:0": 4.0})
            optimizer.set_multiplier(trained[1:], 8.0)
            optimizer.build(trained)

        @tf.function
        def train():
            def step():
                replica = tf.distribute.get_replica_context().replica_id_in_sync_group
                grad = tf.cast(replica + 1, tf.float32) * tf.constant([0.5, -1.0])
                optimizer.apply_gradients([(grad, variable) for variable in trained])
            for _ in range(3):
                strategy.run(step)

        train()
        for variable, multiplier in zip(trained, (4, 8)):
            alone = tf.Variable([1.0, 2.0] if multiplier == 4 else [3.0, 4.0])
            adam = tf.keras.optimizers.Adam(2.0**-7 * multiplier)
            for _ in range(3):
                adam.apply_gradients([(tf.constant([1.5, -3.0]), alone)])
            for replica in strategy.experimental_local_results(variable):
                np.testing.assert_allclose(replica, alone, rtol=1e-6)
        print("equal")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout == "equal\n", done.stderr
