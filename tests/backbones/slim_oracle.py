"""TF-Slim's own networks, and its checkpoints in both of TensorFlow's formats."""

import contextlib
import importlib
import sys

import numpy as np
import tensorflow as tf
import tf_slim

# Where TensorFlow looks for the layer that TF-Slim asks it for, and where Keras 2 has it.
keras_2 = tf.keras.Model.__module__.split(".")[0]
normalization = importlib.import_module(f"{keras_2}.src.legacy_tf_layers.normalization")
sys.modules.setdefault("tf_keras.legacy_tf_layers.normalization", normalization)


class SlimNetwork:
    """TF-Slim's network in a graph and session of its own, its weights and statistics drawn at random."""

    def __init__(self, session, base, arg_scope, scope, is_training):
        self._session = session
        self._images = tf.compat.v1.placeholder(tf.float32, [None, None, None, 3])
        with (
            tf_slim.arg_scope(arg_scope),
            tf_slim.arg_scope([tf_slim.batch_norm], is_training=is_training),
        ):
            # The base alone takes any image size; the logits are there since published checkpoints have them.
            net, self._end_points = base(self._images)
            with tf.compat.v1.variable_scope(f"{scope}/Logits"):
                tf_slim.conv2d(net, 10, [1, 1], normalizer_fn=None, scope="Conv2d_0c_1x1")
        tf.compat.v1.train.create_global_step()
        session.run(tf.compat.v1.global_variables_initializer())
        drawn = dict(draw_weights(np.random.default_rng(0)))
        session.run(
            [variable.initializer for variable in drawn],
            {variable.initializer.inputs[1]: value for variable, value in drawn.items()},
        )

    def end_points(self, images):
        return self._session.run(self._end_points, self._feed(images))

    def statistics_after_a_step(self, images):
        self._session.run(tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS), self._feed(images))
        moving = [v for v in tf.compat.v1.global_variables() if "/moving_" in v.op.name]
        return dict(zip([variable.op.name for variable in moving], self._session.run(moving)))

    def save(self, path, version):
        saver = tf.compat.v1.train.Saver(write_version=version)
        return saver.save(self._session, str(path), write_meta_graph=False, write_state=False)

    def _feed(self, images):
        return {self._images: images / 127.5 - 1}


def draw_weights(rng):
    for variable in tf.compat.v1.global_variables():
        kind, shape = variable.op.name.rsplit("/", 1)[-1], variable.shape.as_list()
        if kind in ("weights", "pointwise_weights"):
            yield variable, rng.normal(0, np.sqrt(2 / np.prod(shape[:-1])), shape)
        elif kind == "depthwise_weights":
            yield variable, rng.normal(0, np.sqrt(2 / np.prod(shape[:2])), shape)
        elif kind == "moving_variance":
            yield variable, rng.uniform(0.5, 2, shape)
        elif kind in ("beta", "biases", "moving_mean"):
            yield variable, rng.normal(0, 0.3, shape)


@contextlib.contextmanager
def slim_network(base, arg_scope, scope, is_training=False):
    """A graph with the network that ``base`` builds, as a context."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        yield SlimNetwork(session, base, arg_scope(), scope, is_training)


def random_images(side, number=2):
    return np.random.default_rng(side).integers(0, 256, (number, side, side, 3)).astype(np.float32)
