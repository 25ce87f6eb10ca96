"""Inception V2 against TF-Slim's own network, weights passed through TF-Slim's newer checkpoint format."""

import numpy as np
import pytest
import tensorflow as tf
from tf_slim.nets import inception_v2 as slim_inception_v2

from profs_tf.backbones.inception_v2 import inception_v2
from tests.backbones.slim_oracle import random_images, slim_network

pytestmark = pytest.mark.filterwarnings("ignore:`layer.apply` is deprecated:UserWarning")

BLOCKS = [f"Mixed_{block}" for block in ("3b", "3c", "4a", "4b", "4c", "4d", "4e", "5a", "5b", "5c")]
CONVOLUTIONS = ["Conv2d_1a_7x7", "Conv2d_2b_1x1", "Conv2d_2c_3x3"]
POOLS = ["MaxPool_2a_3x3", "MaxPool_3a_3x3"]
# TF-Slim's end point -> the layer of ours that computes it.
END_POINTS = {name: name for name in BLOCKS + POOLS} | {name: f"{name}.Relu" for name in CONVOLUTIONS}
SLIM = (slim_inception_v2.inception_v2_base, slim_inception_v2.inception_v2_arg_scope, "InceptionV2")
# A side that every stride divides, and one that none does.
SIDES = (96, 75)


@pytest.fixture(scope="module")
def slim(tmp_path_factory):
    """The path of a random TF-Slim network in the newer format, and its end points by the side of images."""
    with slim_network(*SLIM) as network:
        ends = {side: network.end_points(random_images(side)) for side in SIDES}
        path = tmp_path_factory.mktemp("slim") / "v2.ckpt"
        return network.save(path, tf.compat.v1.train.SaverDef.V2), ends


@pytest.fixture(scope="module")
def loaded(slim):
    return inception_v2(pretrained=slim[0])


def test_every_end_point_equals_slim(slim, loaded):
    outputs = {end: loaded.get_layer(layer).output for end, layer in END_POINTS.items()}
    by_end = tf.keras.Model(loaded.input, outputs)
    for side in SIDES:
        want = slim[1][side]
        assert set(want) == set(END_POINTS)
        for end, got in by_end(random_images(side)).items():
            assert want[end].std() > 0.2
            np.testing.assert_allclose(got, want[end], atol=1e-4, err_msg=f"{end} at {side} pixels")


def test_parameter_counts(loaded):
    assert sum(np.prod(variable.shape) for variable in loaded.trainable_variables) == 10_153_336
    assert sum(np.prod(variable.shape) for variable in loaded.non_trainable_variables) == 19_776


def test_shapes_of_the_usual_crop(loaded):
    sides = dict(zip(BLOCKS, (28, 28, 14, 14, 14, 14, 14, 7, 7, 7)))
    channels = dict(zip(BLOCKS, (256, 320, 576, 576, 576, 576, 576, 1024, 1024, 1024)))
    ends = tf.keras.Model(loaded.input, {block: loaded.get_layer(block).output for block in BLOCKS})
    found = ends.compute_output_shape((None, 224, 224, 3))
    for block in BLOCKS:
        assert tuple(found[block])[1:] == (sides[block], sides[block], channels[block])


def test_momentum_of_the_statistics(loaded):
    def momenta(network):
        layers = [layer for layer in network.layers if isinstance(layer, tf.keras.layers.BatchNormalization)]
        return {layer.momentum for layer in layers}

    assert momenta(loaded) == {0.9997}


def test_weights_of_inception_v1_are_refused(tmp_path):
    """Its checkpoint has another scope: no weight of it is taken."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.get_variable("InceptionV1/Conv2d_1a_7x7/weights", (7, 7, 3, 64))
        session.run(tf.compat.v1.global_variables_initializer())
        path = tf.compat.v1.train.Saver().save(
            session, str(tmp_path / "v1.ckpt"), write_meta_graph=False, write_state=False
        )
    with pytest.raises(ValueError, match="must be a checkpoint of InceptionV2.*Conv2d_1a_7x7/.* is missing"):
        inception_v2(pretrained=path)
