"""What backbones begin and end with."""

import numpy as np
import pytest
import tensorflow as tf

from profs_tf.backbones import common as frame

IMAGES = np.float32([[[[0, 51, 255], [255, 102, 0]]]])


@pytest.mark.parametrize("shape", [(32, 32, 3), (None, None, 3), (None, 40, 3)])
def test_images_that_are_large_enough(shape):
    frame.check_rgb(shape, 32)


@pytest.mark.parametrize("shape", [(31, 32, 3), (32, 31, 3), (None, 8, 3), (32, 32, 1), (32, 32, None)])
def test_others_are_refused(shape):
    with pytest.raises(ValueError, match=r"`input_shape` must be \(height, width, 3\) of at least 32 pixels"):
        frame.check_rgb(shape, 32)


def test_scales():
    got = tf.keras.Model(*frame.scaled_images((None, None, 3)))(IMAGES)
    np.testing.assert_allclose(got, [[[[-1, -0.6, 1], [1, -0.2, -1]]]], atol=1e-6)
    got = tf.keras.Model(*frame.centred_images((None, None, 3), (10.0, 20.0, 30.0)))(IMAGES)
    np.testing.assert_array_equal(got, [[[[-10, 31, 225], [245, 82, -30]]]])


def test_published_weights_come_after_the_seed(tmp_path):
    images, x = frame.scaled_images((None, None, 3))
    x = tf.keras.layers.Conv2D(2, 1, name="convolution")(x)
    seeded = frame.finished(images, x, "net", seed=1)
    drawn = seeded.get_weights()
    found = []

    def load(model, path):
        np.testing.assert_array_equal(model.get_weights()[0], drawn[0])
        found.append(path)

    path = str(tmp_path / "weights")
    assert frame.finished(images, x, "net", 1, path, load).name == "net"
    assert found == [path]
