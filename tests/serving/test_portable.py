import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from profs_tf.inputs.preprocessing import Preprocessing
from profs_tf.serving.portable import portable_function, scale
from tests.serving.exports import PREPROCESSING, expected_of


@pytest.mark.parametrize(
    "preprocessing",
    [
        Preprocessing(resize=0, crop=16),
        Preprocessing(resize=24, crop=24, aspect="pad"),
        Preprocessing(resize=31, crop=24, aspect="crop"),
        Preprocessing(resize=31, crop=24),
    ],
)
def test_includes_every_preprocessing(preprocessing, embedder, pictures):
    function = portable_function(embedder, preprocessing)
    for picture in pictures:
        got = function(tf.constant(picture[np.newaxis], tf.float32))["embeddings"]
        np.testing.assert_allclose(got, expected_of(embedder, [picture], preprocessing), atol=1e-3)


@settings(max_examples=40)
@given(st.integers(1, 90), st.integers(1, 90), st.integers(1, 60), st.integers(0, 2**31))
def test_scales_as_tensorflow(height, width, size, seed):
    images = np.random.default_rng(seed).integers(0, 256, (2, height, width, 3)).astype(np.float32)
    got = scale(tf.constant(images), size).numpy()
    wanted = tf.image.resize(images, [size, size], antialias=True).numpy()
    # Rounding is part of scaling. On each axis a float32 coordinate is exact to `eps` times the length, and
    # the value there changes by up to 255 from pixel to pixel.
    inexact = 2 * 255 * max(height, width) * np.finfo(np.float32).eps
    assert np.max(np.abs(got - wanted)) <= 0.5 + inexact
    np.testing.assert_array_equal(got, np.round(got))


def test_size_zero_keeps_the_size():
    images = tf.random.stateless_uniform([1, 5, 7, 3], [0, 0], 0, 255)
    assert scale(images, 0) is images


def test_fractions_are_rounded_as_by_the_signatures(embedder, pictures):
    function = portable_function(embedder, PREPROCESSING)
    whole = tf.constant(pictures[0][np.newaxis], tf.float32)
    np.testing.assert_array_equal(
        function(whole + 0.3)["embeddings"], function(tf.clip_by_value(whole, 0.0, 255.0))["embeddings"]
    )
