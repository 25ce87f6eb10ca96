"""Padding and pooling against Caffe's definition in plain loops."""

import numpy as np
import pytest
import tensorflow as tf

from profs_tf.backbones.layers import caffe as caffe_layers
from tests.backbones import caffe_oracle


def draw(*shape, low=-1.0):
    return np.random.default_rng(sum(shape)).uniform(low, 1, shape).astype(np.float32)


def model(function, *arguments):
    images = tf.keras.Input((None, None, 2))
    return tf.keras.Model(images, function(images, *arguments))


SIDES = [(2, 2), (2, 3), (3, 7), (8, 5), (9, 10), (6, 6)]


@pytest.mark.parametrize("sides", SIDES)
def test_the_size_of_a_reducing_pool_is_rounded_up(sides):
    x = draw(2, *sides, 2, low=0.0)
    want = caffe_oracle.pool(x, 3, 2)
    got = model(caffe_layers.ceil_max_pool, "pool")(x)
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, want)


def test_rounding_up_differs_from_both_of_tensorflows_paddings():
    """Otherwise the layer would be needless: 7 rows are 3 windows, not 4; 8 rows are 4, not 3."""
    sizes = {
        (side, padding): tf.nn.max_pool2d(draw(1, side, side, 2), 3, 2, padding).shape[1]
        for side in (7, 8)
        for padding in ("SAME", "VALID")
    }
    got = {
        side: model(caffe_layers.ceil_max_pool, "pool")(draw(1, side, side, 2)).shape[1] for side in (7, 8)
    }
    assert got == {7: 3, 8: 4}
    assert sizes[7, "SAME"] == 4
    assert sizes[8, "VALID"] == 3


@pytest.mark.parametrize("sides", [(1, 1), *SIDES])
def test_means_count_the_zeros_of_the_border(sides):
    x = draw(2, *sides, 2)
    want = caffe_oracle.pool(x, 3, 1, pad=1, average=True)
    np.testing.assert_allclose(model(caffe_layers.average_pool, "pool")(x), want, atol=1e-6)
    if sides != (1, 1):
        assert np.abs(want - tf.nn.avg_pool2d(x, 3, 1, "SAME")).max() > 0.05


@pytest.mark.parametrize("sides", [(1, 1), *SIDES])
def test_a_maximum_by_strides_of_one(sides):
    x = draw(2, *sides, 2) - 5
    np.testing.assert_array_equal(model(caffe_layers.max_pool, "pool")(x), caffe_oracle.pool(x, 3, 1, pad=1))


@pytest.mark.parametrize("sides", [(2, 2), (4, 8), (6, 2)])
def test_a_reducing_maximum_of_even_maps(sides):
    x = draw(2, *sides, 2) - 5
    np.testing.assert_array_equal(model(caffe_layers.max_pool, "pool", 2)(x), caffe_oracle.pool(x, 3, 2))


@pytest.mark.parametrize(("size", "strides"), [(1, 1), (3, 1), (3, 2), (5, 1), (7, 2)])
def test_convolutions_are_padded_alike_on_both_sides(size, strides):
    x, kernel, bias = draw(2, 8, 9, 2), draw(4, 2, size, size), draw(4)
    layer = tf.keras.layers.Conv2D(4, size, strides=strides)
    network = model(lambda images: layer(caffe_layers.pad_for_convolution(images, size, "conv")))
    layer.set_weights([kernel.transpose(2, 3, 1, 0), bias])
    want = caffe_oracle.convolve(x, kernel, bias, strides, size // 2)
    np.testing.assert_allclose(network(x), want, atol=1e-5)
