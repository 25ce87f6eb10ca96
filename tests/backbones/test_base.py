"""The properties of a backbone, what is refused by them, and the parts that networks share."""

import re

import numpy as np
import pytest
import tensorflow as tf

from profs_tf.backbones import base

IMAGES = np.float32([[[[0, 51, 255], [255, 102, 0]]]])
PUBLISHED = base.PublishedWeights("a zoo", "a license", "a file of numbers", "http://zoo/file")


def build(input_shape, pretrained, batch_norm_momentum, seed):
    images, x = base.rescaled_input(input_shape)
    x = tf.keras.layers.Conv2D(2, 8, strides=4, name="convolution")(x)

    def load(model, path):
        if path == "nothing":
            raise ValueError("`pretrained` must be a file, got 'nothing'.")
        model.get_layer("convolution").bias.assign([1.0, float(path)])

    return base.finalize(images, x, "net", seed, pretrained, load)


def net(**properties):
    return base.Backbone("net", build, **{"min_size": 8, **properties})


def saved_elsewhere(shape):
    return net(own_weights="mine", load=lambda: build(shape, None, None, None))


@pytest.mark.parametrize("shape", [(8, 8, 3), (None, None, 3), (None, 40, 3)])
def test_images_that_are_large_enough(shape):
    assert net()(shape).input_shape == (None, *shape)


@pytest.mark.parametrize("shape", [(7, 8, 3), (8, 7, 3), (None, 4, 3), (8, 8, 1), (8, 8, None)])
def test_others_are_refused(shape):
    with pytest.raises(
        ValueError, match=r"`input_shape` must be \(height, width, 3\) of at least 8 pixels for net, got \("
    ):
        net()(shape)


def test_the_decorator_names_the_backbone_by_its_function():
    def small(input_shape, pretrained, batch_norm_momentum, seed):
        return "built"

    found = base.backbone(min_size=4, published=PUBLISHED)(small)
    assert found == base.Backbone("small", small, 4, PUBLISHED)
    assert found((4, 4, 3)) == "built"


def test_without_published_weights_none_are_taken():
    with pytest.raises(ValueError, match=r"`pretrained` must be None for net, .* got '1'"):
        net()(pretrained="1")


def test_published_weights_come_after_the_seed(tmp_path):
    drawn, loaded = net(published=PUBLISHED)(seed=1), net(published=PUBLISHED)(pretrained="2", seed=1)
    np.testing.assert_array_equal(drawn.get_weights()[0], loaded.get_weights()[0])
    np.testing.assert_array_equal(loaded.get_weights()[1], [1, 2])


def test_a_file_that_is_not_there_can_be_had_elsewhere(tmp_path):
    message = re.escape(
        "got 'nothing'. net takes a file of numbers, published at http://zoo/file: download it"
    )
    with pytest.raises(ValueError, match=f"{message}.* --pretrained=FILE"):
        net(published=PUBLISHED)(pretrained="nothing")


def test_pretrained_weights_must_be_finite():
    message = r"`pretrained` must have finite weights, got 'nan', .*: 1 of 2 in convolution/bias:0\."
    with pytest.raises(ValueError, match=message):
        net(published=PUBLISHED)(pretrained="nan")


def test_the_size_of_the_images():
    assert net().fixed_size is None
    net().check_image_size(8)
    with pytest.raises(ValueError, match=r"`image_crop` must be >= 8 pixels for the backbone net, got 7\."):
        net().check_image_size(7)


def test_the_size_of_a_loaded_network():
    any_size, fixed = saved_elsewhere((None, None, 3)), saved_elsewhere((32, 32, 3))
    assert (any_size.fixed_size, fixed.fixed_size) == (None, 32)
    any_size.check_image_size(9)
    fixed.check_image_size(32)
    with pytest.raises(
        ValueError, match=r"`image_crop` must be 32 pixels .* got 40\. Set --image_resize and"
    ):
        fixed.check_image_size(40)
    with pytest.raises(ValueError, match="square images, got net for 32 x 40 pixels"):
        assert saved_elsewhere((32, 40, 3)).fixed_size


@pytest.mark.parametrize("layer", [tf.keras.layers.Conv2D(2, 8), tf.keras.layers.MaxPooling2D(8)])
def test_a_size_that_only_the_loaded_network_refuses(layer):
    images = tf.keras.Input((None, None, 3))
    network = tf.keras.Model(images, layer(images))
    with pytest.raises(
        ValueError, match=r"`image_crop` must be a size that the network can take \(.*got 7\."
    ):
        base.Backbone("net", build, load=lambda: network).check_image_size(7)


def test_scales():
    got = tf.keras.Model(*base.rescaled_input((None, None, 3)))(IMAGES)
    np.testing.assert_allclose(got, [[[[-1, -0.6, 1], [1, -0.2, -1]]]], atol=1e-6)
    got = tf.keras.Model(*base.centered_input((None, None, 3), (10.0, 20.0, 30.0)))(IMAGES)
    np.testing.assert_array_equal(got, [[[[-10, 31, 225], [245, 82, -30]]]])
