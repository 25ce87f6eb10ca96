"""A stock Keras model on two replicas, which a test makes of one processor."""

from pathlib import Path

from tests.helpers.forked_process import run_forked

REPLICAS = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np, tensorflow as tf
(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from tests.losses.loss_cases import DIMENSIONS, identity_model, unit_rows
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
"""


def test_two_replicas_with_one_batch_each_step_like_one():
    """The same value and the same step, of the embedder and of the boundary, not twice as long a one."""
    result = run_forked("-c", REPLICAS, Path(__file__).parents[2])
    assert result.returncode == 0, result.stderr
