"""TF-Slim's layers against their definitions in plain operations."""

import numpy as np
import pytest
import tensorflow as tf

from profs_tf.backbones.layers.slim import SlimLayers


def layers(momentum=None, pretrained=False):
    return SlimLayers(momentum, pretrained, tf.keras.initializers.HeNormal)


def network(apply):
    images = tf.keras.Input((None, None, 2))
    return tf.keras.Model(images, apply(images))


def draw(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("strides", [1, 2])
def test_convolution_shifts_but_does_not_scale(strides):
    model = network(lambda x: layers().convolution(x, 3, 3, "a.b", strides))
    assert [layer.name for layer in model.layers[1:]] == ["a.b", "a.b.BatchNorm", "a.b.Relu"]
    beta, mean, variance = draw(3), draw(3), np.float32([0.5, 1.0, 2.0])
    model.get_layer("a.b.BatchNorm").set_weights([beta, mean, variance])
    x = draw(2, 7, 8, 2)
    convolved = tf.nn.conv2d(x, model.get_layer("a.b").kernel, strides, "SAME")
    want = np.maximum((convolved - mean) / np.sqrt(variance + 1e-3) + beta, 0)
    np.testing.assert_allclose(model(x), want, atol=1e-5)


@pytest.mark.parametrize(("pretrained", "momentum", "expected"), [(True, None, 0.9997), (False, None, 0.9),
                                                                   (True, 0.5, 0.5)])  # fmt: skip
def test_momentum_of_the_statistics(pretrained, momentum, expected):
    model = network(lambda x: layers(momentum, pretrained).convolution(x, 3, 1, "conv"))
    assert model.get_layer("conv.BatchNorm").momentum == expected


def test_pools_leave_out_what_lies_outside_the_map():
    x = draw(1, 3, 3, 2) - 5
    largest = network(lambda images: layers().max_pool(images, 3, "pool", strides=2))(x)
    mean = network(lambda images: layers().average_pool(images, 3, "pool"))(x)
    np.testing.assert_allclose(largest[0, 0, 0], x[0, :2, :2].max((0, 1)))
    np.testing.assert_allclose(mean[0, 0, 0], x[0, :2, :2].mean((0, 1)), rtol=1e-6)
    np.testing.assert_allclose(mean[0, 1, 1], x[0].mean((0, 1)), rtol=1e-6)
    assert (largest.shape, mean.shape) == ((1, 2, 2, 2), (1, 3, 3, 2))
