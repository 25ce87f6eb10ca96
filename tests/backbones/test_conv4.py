"""The four-block network against its definition in NumPy and plain loops."""

import numpy as np
import pytest
import tensorflow as tf

from profs_tf.backbones.conv4 import conv4


def numpy_block(x, kernel, gamma, beta, mean, variance):
    """Zero-padded 3 x 3 convolution, batch normalization by moving statistics, ReLU, 2 x 2 max pooling."""
    height, width = x.shape[1:3]
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    convolved = sum(
        padded[:, i : i + height, j : j + width] @ kernel[i, j] for i in range(3) for j in range(3)
    )
    rectified = np.maximum(gamma * (convolved - mean) / np.sqrt(variance + 1e-3) + beta, 0)
    rows, columns = height // 2, width // 2
    cut = rectified[:, : 2 * rows, : 2 * columns]
    return cut.reshape(len(x), rows, 2, columns, 2, -1).max((2, 4))


@pytest.mark.parametrize(("height", "width"), [(32, 32), (37, 19)])
def test_equals_its_definition(height, width):
    rng = np.random.default_rng(0)
    network = conv4(seed=0)
    for layer in network.layers:
        if isinstance(layer, tf.keras.layers.BatchNormalization):
            layer.set_weights([rng.uniform(0.5, 1.5, 64) for _ in range(4)])
    images = rng.integers(0, 256, (2, height, width, 3))
    want = images / 127.5 - 1
    for block in range(1, 5):
        norm = network.get_layer(f"batch_norm_{block}").get_weights()
        want = numpy_block(want, network.get_layer(f"conv_{block}").get_weights()[0], *norm)
    got = network(images.astype("f"))
    assert got.shape == (2, height // 16, width // 16, 64)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_parameter_counts():
    network = conv4()
    assert sum(np.prod(variable.shape) for variable in network.trainable_variables) == 112_832
    assert sum(np.prod(variable.shape) for variable in network.non_trainable_variables) == 512


def test_momentum_of_the_statistics():
    images = np.full((1, 16, 16, 3), 255, "f")
    for momentum, options in ((0.9, {}), (0.5, {"batch_norm_momentum": 0.5})):
        network = conv4(seed=0, **options)
        network(images, training=True)
        # A white image is all ones after scaling: away from the border, a filter answers with its sum.
        mean = tf.nn.conv2d(tf.ones((1, 16, 16, 3)), network.get_layer("conv_1").kernel, 1, "SAME")
        want = (1 - momentum) * tf.reduce_mean(mean, [0, 1, 2])
        np.testing.assert_allclose(network.get_layer("batch_norm_1").moving_mean, want, rtol=1e-4, atol=1e-6)


def test_the_smallest_image():
    assert conv4()(np.ones((1, conv4.min_size, conv4.min_size, 3), "f")).shape == (1, 1, 1, 64)


def test_pretrained_is_refused():
    with pytest.raises(ValueError, match=r"`pretrained` must be None for conv4.*got 'imagenet'"):
        conv4(pretrained="imagenet")
