"""Inception V1 against TF-Slim's own network, weights passed through TF-Slim's older checkpoint format."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from tf_slim.nets import inception_v1 as slim_inception_v1

from profs_tf.backbones.inception_v1 import inception_v1
from tests.backbones.slim_oracle import random_images, slim_network

pytestmark = pytest.mark.filterwarnings("ignore:`layer.apply` is deprecated:UserWarning")
SLIM = (slim_inception_v1.inception_v1_base, slim_inception_v1.inception_v1_arg_scope, "InceptionV1")

BLOCKS = [f"Mixed_{block}" for block in ("3b", "3c", "4b", "4c", "4d", "4e", "4f", "5b", "5c")]
CONVOLUTIONS = ["Conv2d_1a_7x7", "Conv2d_2b_1x1", "Conv2d_2c_3x3"]
POOLS = ["MaxPool_2a_3x3", "MaxPool_3a_3x3", "MaxPool_4a_3x3", "MaxPool_5a_2x2"]
# TF-Slim's end point -> the layer of ours that computes it.
END_POINTS = {name: name for name in BLOCKS + POOLS} | {name: f"{name}.Relu" for name in CONVOLUTIONS}
# A side that every stride divides, and one that none does.
SIDES = (96, 75)
STEP_IMAGES = random_images(64, number=4)
DECAY = 0.9997


@pytest.fixture(scope="module")
def slim(tmp_path_factory):
    """The path of a random TF-Slim network in the older format, its end points, its statistics after a step.

    All that needs a graph comes first: Keras takes no layer that was made before one.
    """
    folder = tmp_path_factory.mktemp("slim")
    base, *scopes = SLIM
    # The layers whose statistics are compared.
    first = functools.partial(base, final_endpoint="Mixed_3b")
    with slim_network(first, *scopes, is_training=True) as network:
        statistics = network.statistics_after_a_step(STEP_IMAGES)
    with slim_network(*SLIM) as network:
        ends = {side: network.end_points(random_images(side)) for side in SIDES}
        return network.save(folder / "v1.ckpt", tf.compat.v1.train.SaverDef.V1), ends, statistics


@pytest.fixture(scope="module")
def network(slim):
    """Our network with TF-Slim's weights."""
    return inception_v1(pretrained=slim[0], seed=1)


def test_every_end_point_equals_slim(slim, network):
    ends = slim[1]
    outputs = {end: network.get_layer(layer).output for end, layer in END_POINTS.items()}
    by_end = tf.keras.Model(network.input, outputs)
    for side in SIDES:
        assert set(ends[side]) == set(END_POINTS)
        for end, got in by_end(random_images(side)).items():
            want = ends[side][end]
            assert want.std() > 0.3
            np.testing.assert_allclose(got, want, atol=1e-4, err_msg=f"{end} at {side} pixels")


def test_a_training_step_moves_the_statistics_as_slim(slim, network):
    """Each by 0.0003 of its difference to the batch's; seen before rounding has grown with depth."""
    want = slim[2]
    before = {layer.name: layer.get_weights() for layer in network.layers}
    network(STEP_IMAGES, training=True)
    after = {layer.name: layer.get_weights() for layer in network.layers}
    for layer in batch_norms(network):
        layer.set_weights(before[layer.name])
    for name in ("Conv2d_1a_7x7", "Conv2d_2c_3x3", "Mixed_3b.Branch_2.Conv2d_0b_3x3"):
        layer = f"{name}.BatchNorm"
        for place, statistic in ((1, "moving_mean"), (2, "moving_variance")):
            start, got = before[layer][place], after[layer][place]
            wanted = want[f"InceptionV1/{name.replace('.', '/')}/BatchNorm/{statistic}"]
            assert np.abs(wanted - start).max() > 1e-5
            np.testing.assert_allclose((got - start) / (1 - DECAY), (wanted - start) / (1 - DECAY), atol=2e-3)


def test_parameter_counts(network):
    assert sum(np.prod(variable.shape) for variable in network.trainable_variables) == 5_592_624
    assert sum(np.prod(variable.shape) for variable in network.non_trainable_variables) == 14_560


def test_output_shape(network):
    assert network.output_shape == (None, None, None, 1024)
    assert network(np.zeros((1, 33, 65, 3), "f")).shape == (1, 2, 3, 1024)
    assert tuple(network.compute_output_shape((None, 224, 224, 3))) == (None, 7, 7, 1024)


def test_layers_carry_slim_names(network):
    kernels = [layer.name for layer in network.layers if isinstance(layer, tf.keras.layers.Conv2D)]
    assert len(kernels) == 57
    assert "Mixed_5b.Branch_2.Conv2d_0a_3x3" in kernels
    assert "Mixed_5b.Branch_2.Conv2d_0b_3x3" not in kernels
    assert not any("/" in layer.name for layer in network.layers)


def batch_norms(model):
    return [layer for layer in model.layers if isinstance(layer, tf.keras.layers.BatchNormalization)]


def test_momentum_of_the_statistics(network):
    assert {layer.momentum for layer in batch_norms(network)} == {DECAY}


@pytest.mark.parametrize(
    "suffix",
    [".h5", *(pytest.param(suffix, marks=pytest.mark.slow) for suffix in (".keras", ""))],
    ids=["h5", "keras", "SavedModel"],
)
@pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file:UserWarning")
def test_every_file_format_stores_it(network, tmp_path, suffix):
    path = str(tmp_path / f"network{suffix}")
    network.save(path)
    images = random_images(64)
    np.testing.assert_array_equal(tf.keras.models.load_model(path)(images), network(images))
