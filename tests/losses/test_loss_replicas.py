"""Two replicas, which a test makes of one processor: a stock Keras model, and every loss by itself."""

from pathlib import Path

from tests.helpers.forked_process import run_forked
from tests.losses.loss_cases import WITH_PROXIES

REPLICAS = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np, tensorflow as tf
(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from tests.losses.loss_cases import DIMENSIONS, build, identity_model, unit_rows
from profs_tf import losses

y, q = np.repeat(np.arange(4), 3), np.tile([1.0, 0.0, 0.0], 4)
x = unit_rows(np.random.default_rng(0), 12)
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
results = []
for replicas in (1, 2):
    with tf.distribute.MirroredStrategy([f"CPU:{device}" for device in range(replicas)]).scope():
        model, loss = identity_model(), losses.MarginLoss()
        model.compile(tf.keras.optimizers.SGD(0.1), loss=loss)
    arrays = [np.concatenate([array] * replicas) for array in (x, y, q)]
    dataset = tf.data.Dataset.from_tensor_slices(tuple(arrays)).batch(12 * replicas).with_options(options)
    history = model.fit(dataset, verbose=0).history["loss"]
    results.append((history, model.get_weights()))
assert np.any(results[0][1][0] != np.eye(DIMENSIONS))
for one, two in zip(tf.nest.flatten(results[0]), tf.nest.flatten(results[1])):
    np.testing.assert_allclose(one, two, rtol=1e-6)

two = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
def step(loss):
    with tf.GradientTape() as tape:
        value = loss(y, x, q)
    gradients = tape.gradient(value, loss.trainable_variables)
    return [value, *(tf.convert_to_tensor(gradient) for gradient in gradients)]
for name in sys.argv[2:]:
    with two.scope():
        mirrored = build(name).loss
    for expected, found in zip(step(build(name).loss), two.run(step, [mirrored])):
        for of_replica in two.experimental_local_results(found):
            np.testing.assert_array_equal(of_replica, expected, name)
"""
# Those with variables, which a strategy copies to every replica, and one without.
NAMES = ("margin", "margin_per_class", "soft_triple", *WITH_PROXIES, "sup_con")


def test_two_replicas_with_one_batch_each_step_like_one():
    """The same value and the same step, of the embedder and of the boundary, not twice as long a one.

    Each loss gives its value and the gradient of its variables on each replica.
    """
    result = run_forked("-c", REPLICAS, Path(__file__).parents[2], *NAMES)
    assert result.returncode == 0, result.stderr
