"""Inception V1 against TF-Slim's own network, weights passed through TF-Slim's own checkpoint formats."""

import contextlib
import sys

import numpy as np
import pytest
import tensorflow as tf
import tf_slim
from keras.src.legacy_tf_layers import normalization
from tf_slim.nets import inception_v1 as slim_inception_v1

from profs_tf.backbones.inception_v1 import inception_v1

pytestmark = pytest.mark.filterwarnings("ignore:`layer.apply` is deprecated:UserWarning")
# Where TensorFlow 2.15 looks for the layer that TF-Slim asks it for, were tf_keras installed.
sys.modules.setdefault("tf_keras.legacy_tf_layers.normalization", normalization)

BLOCKS = [f"Mixed_{block}" for block in ("3b", "3c", "4b", "4c", "4d", "4e", "4f", "5b", "5c")]
CONVOLUTIONS = ["Conv2d_1a_7x7", "Conv2d_2b_1x1", "Conv2d_2c_3x3"]
POOLS = ["MaxPool_2a_3x3", "MaxPool_3a_3x3", "MaxPool_4a_3x3", "MaxPool_5a_2x2"]
# TF-Slim's end point -> the layer of ours that computes it.
END_POINTS = {name: name for name in BLOCKS + POOLS} | {name: f"{name}.Relu" for name in CONVOLUTIONS}
# The usual crop, and a side that no stride divides.
SIDES = (224, 227)
DECAY = 0.9997


class SlimNetwork:
    """TF-Slim's network in a graph and session of its own, its weights and statistics drawn at random."""

    def __init__(self, session, is_training):
        self._session = session
        self._images = tf.compat.v1.placeholder(tf.float32, [None, None, None, 3])
        with (
            tf_slim.arg_scope(slim_inception_v1.inception_v1_arg_scope()),
            tf_slim.arg_scope([tf_slim.batch_norm], is_training=is_training),
        ):
            # The base alone takes any image size; the logits are there since published checkpoints have them.
            net, self._end_points = slim_inception_v1.inception_v1_base(self._images)
            with tf.compat.v1.variable_scope("InceptionV1/Logits"):
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
        if kind == "weights":
            yield variable, rng.normal(0, np.sqrt(2 / np.prod(shape[:-1])), shape)
        elif kind == "moving_variance":
            yield variable, rng.uniform(0.5, 2, shape)
        elif kind in ("beta", "moving_mean"):
            yield variable, rng.normal(0, 0.3, shape)


@contextlib.contextmanager
def slim_network(is_training=False):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        yield SlimNetwork(session, is_training)


def random_images(side, number=2):
    return np.random.default_rng(side).integers(0, 256, (number, side, side, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def slim(tmp_path_factory):
    """Paths of one random TF-Slim network in both formats, and its end points for images of each side."""
    folder = tmp_path_factory.mktemp("slim")
    with slim_network() as network:
        ends = {side: network.end_points(random_images(side)) for side in SIDES}
        paths = {
            "one file": network.save(folder / "v1.ckpt", tf.compat.v1.train.SaverDef.V1),
            "index and data": network.save(folder / "v2.ckpt", tf.compat.v1.train.SaverDef.V2),
        }
    return paths, ends


@pytest.fixture(scope="module")
def loaded(slim):
    """Our network with TF-Slim's weights, by the format they were read from."""
    return {written_as: inception_v1(pretrained=path, seed=1) for written_as, path in slim[0].items()}


@pytest.fixture(scope="module")
def network():
    return inception_v1()


@pytest.mark.parametrize("written_as", ["one file", "index and data"])
def test_every_end_point_equals_slim(slim, loaded, written_as):
    ends, ours = slim[1], loaded[written_as]
    outputs = {end: ours.get_layer(layer).output for end, layer in END_POINTS.items()}
    by_end = tf.keras.Model(ours.input, outputs)
    for side in SIDES:
        assert set(ends[side]) == set(END_POINTS)
        for end, got in by_end(random_images(side)).items():
            want = ends[side][end]
            assert want.std() > 0.3
            np.testing.assert_allclose(got, want, atol=1e-4, err_msg=f"{end} at {side} pixels")


def test_a_training_step_moves_the_statistics_as_slim(slim):
    """Each by 0.0003 of its difference to the batch's; seen before rounding has grown with depth."""
    images = random_images(64, number=4)
    with slim_network(is_training=True) as network:
        want = network.statistics_after_a_step(images)
    ours = inception_v1(pretrained=slim[0]["index and data"])
    before = {layer.name: layer.get_weights() for layer in ours.layers}
    ours(images, training=True)
    for name in ("Conv2d_1a_7x7", "Conv2d_2c_3x3", "Mixed_3b.Branch_2.Conv2d_0b_3x3"):
        layer = ours.get_layer(f"{name}.BatchNorm")
        for statistic in ("moving_mean", "moving_variance"):
            got = getattr(layer, statistic).numpy()
            start = before[layer.name][1 if statistic == "moving_mean" else 2]
            wanted = want[f"InceptionV1/{name.replace('.', '/')}/BatchNorm/{statistic}"]
            assert np.abs(wanted - start).max() > 1e-5
            np.testing.assert_allclose((got - start) / (1 - DECAY), (wanted - start) / (1 - DECAY), atol=2e-3)


def test_parameter_counts(network):
    assert sum(np.prod(variable.shape) for variable in network.trainable_variables) == 5_592_624
    assert sum(np.prod(variable.shape) for variable in network.non_trainable_variables) == 14_560


def test_output_shape(network):
    assert network.output_shape == (None, None, None, 1024)
    assert network(np.zeros((1, 33, 65, 3), "f")).shape == (1, 2, 3, 1024)
    assert inception_v1((224, 224, 3)).output_shape == (None, 7, 7, 1024)


def test_layers_carry_slim_names(network):
    kernels = [layer.name for layer in network.layers if isinstance(layer, tf.keras.layers.Conv2D)]
    assert len(kernels) == 57
    assert "Mixed_5b.Branch_2.Conv2d_0a_3x3" in kernels
    assert "Mixed_5b.Branch_2.Conv2d_0b_3x3" not in kernels
    assert not any("/" in layer.name for layer in network.layers)


def batch_norms(model):
    return [layer for layer in model.layers if isinstance(layer, tf.keras.layers.BatchNormalization)]


def test_momentum_of_the_statistics(loaded, network):
    assert {layer.momentum for layer in batch_norms(network)} == {0.9}
    assert {layer.momentum for layer in batch_norms(inception_v1(batch_norm_momentum=0.5))} == {0.5}
    assert {layer.momentum for layer in batch_norms(loaded["one file"])} == {DECAY}


@pytest.mark.parametrize(
    "suffix", [".h5", ".keras", pytest.param("", marks=pytest.mark.slow)], ids=["h5", "keras", "SavedModel"]
)
@pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file:UserWarning")
def test_every_file_format_stores_it(network, tmp_path, suffix):
    path = str(tmp_path / f"network{suffix}")
    network.save(path)
    images = random_images(64)
    np.testing.assert_array_equal(tf.keras.models.load_model(path)(images), network(images))
