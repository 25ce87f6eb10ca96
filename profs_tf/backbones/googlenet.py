"""GoogLeNet as published, without batch normalisation, in Caffe's form (``bvlc_googlenet``).

Shapes: B images, H x W their height and width in pixels.

    images [B, H, W, 3], values 0..255  ->  feature map [B, h, w, 1024], h = w = 7 for 224 pixels

Szegedy et al., Going Deeper with Convolutions, CVPR 2015, table 1. The network that lifted structure, N-pair
and angular losses were published with. With batch normalisation: `inception_v1`, `bn_inception`.

Local response normalisation is Caffe's: each value is divided by
``(1 + alpha / 5 * sum of the squares of 5 neighbouring channels) ** 0.75`` with alpha = 1e-4. TensorFlow's
operation does not divide alpha by the number of channels.

Layers carry Caffe's names with "." for "/": "inception_3a.5x5_reduce".

Differs: the first convolution takes RGB; its kernel is turned around once, when weights are read. The
    auxiliary classifiers and dropout before the classifier are left out, as everywhere in metric learning.
"""

from __future__ import annotations

import functools
from typing import Optional

import tensorflow as tf

from profs_tf.backbones.common import centred_images, check_rgb, finished
from profs_tf.backbones.layers import caffe as caffe_layers
from profs_tf.backbones.weights.caffe import load_caffe_blobs

# Mean red, green and blue that the published weights expect subtracted.
MEAN_RGB = (123.0, 117.0, 104.0)
# A smaller image leaves one of the four pools one row, which it cannot take.
SMALLEST_SIDE = 31
_FIRST = "conv1.7x7_s2"
# Caffe's start for every bias of this network.
_BIAS = 0.2

# Filters of the blocks: 1x1; 3x3 reduce and 3x3; 5x5 reduce and 5x5; after the pool.
_BLOCKS_3 = {
    "inception_3a": (64, (96, 128), (16, 32), 32),
    "inception_3b": (128, (128, 192), (32, 96), 64),
}
_BLOCKS_4 = {
    "inception_4a": (192, (96, 208), (16, 48), 64),
    "inception_4b": (160, (112, 224), (24, 64), 64),
    "inception_4c": (128, (128, 256), (24, 64), 64),
    "inception_4d": (112, (144, 288), (32, 64), 64),
    "inception_4e": (256, (160, 320), (32, 128), 128),
}
_BLOCKS_5 = {
    "inception_5a": (256, (160, 320), (32, 128), 128),
    "inception_5b": (384, (192, 384), (48, 128), 128),
}


def googlenet(
    input_shape: tuple[Optional[int], Optional[int], int] = (None, None, 3),
    *,
    pretrained: Optional[str] = None,
    batch_norm_momentum: Optional[float] = None,
    seed: Optional[int] = None,
) -> tf.keras.Model:
    """Builds GoogLeNet up to its last block: 5,973,552 trainable weights and no statistics.

    Args:
        input_shape: (height, width, 3); height and width may be None, otherwise at least 31 pixels.
        pretrained: Path of an .npz file of Caffe's blobs (`profs_tf.backbones.weights.caffe`), or of what
            ``tools/convert_weights.py`` made of it.
        batch_norm_momentum: Must be None: there is no batch normalisation.
        seed: Makes the initial weights a pure function of this whole number; None draws them from Keras's
            global generator.

    Returns:
        A model from images, float32 with values 0..255 and centred inside, to the output of "inception_5b".

    Raises:
        ValueError: If the images are too small or not RGB, ``batch_norm_momentum`` is given, or
            ``pretrained`` does not hold exactly the weights of this network.
    """
    check_rgb(input_shape, SMALLEST_SIDE)
    if batch_norm_momentum is not None:
        raise ValueError(
            "`batch_norm_momentum` must be None for googlenet, which has no batch normalisation, got "
            f"{batch_norm_momentum}."
        )
    images, x = centred_images(input_shape, MEAN_RGB)
    x = _convolution(x, 64, 7, _FIRST, strides=2)
    x = _normalised(caffe_layers.ceil_max_pool(x, "pool1.3x3_s2"), "pool1.norm1")
    x = _convolution(x, 64, 1, "conv2.3x3_reduce")
    x = _normalised(_convolution(x, 192, 3, "conv2.3x3"), "conv2.norm2")
    x = caffe_layers.ceil_max_pool(x, "pool2.3x3_s2")
    x = caffe_layers.ceil_max_pool(_inception(x, _BLOCKS_3), "pool3.3x3_s2")
    x = caffe_layers.ceil_max_pool(_inception(x, _BLOCKS_4), "pool4.3x3_s2")
    load = functools.partial(load_caffe_blobs, blue_first=_FIRST)
    return finished(images, _inception(x, _BLOCKS_5), "googlenet", seed, pretrained, load)


def _convolution(x: tf.Tensor, filters: int, size: int, name: str, strides: int = 1) -> tf.Tensor:
    x = tf.keras.layers.Conv2D(
        filters,
        size,
        strides=strides,
        padding="valid",
        bias_initializer=tf.keras.initializers.Constant(_BIAS),
        name=name,
    )(caffe_layers.padded(x, size, name))
    return tf.keras.layers.ReLU(name=f"{name}.relu")(x)


def _normalised(x: tf.Tensor, name: str) -> tf.Tensor:
    # Squares overflow in half precision. Keras makes a stock layer of the operation, which loads anywhere.
    x = tf.keras.layers.Activation("linear", dtype="float32", name=f"{name}.cast")(x)
    x = tf.nn.local_response_normalization(x, depth_radius=2, bias=1.0, alpha=1e-4 / 5, beta=0.75)
    return tf.keras.layers.Activation("linear", name=name)(x)


def _inception(x: tf.Tensor, blocks: dict) -> tf.Tensor:
    for block, (direct, medium, wide, pooled) in blocks.items():
        branches = [_convolution(x, direct, 1, f"{block}.1x1")]
        for size, (reduced, filters) in ((3, medium), (5, wide)):
            branch = _convolution(x, reduced, 1, f"{block}.{size}x{size}_reduce")
            branches.append(_convolution(branch, filters, size, f"{block}.{size}x{size}"))
        branch = caffe_layers.max_pool(x, f"{block}.pool")
        branches.append(_convolution(branch, pooled, 1, f"{block}.pool_proj"))
        x = tf.keras.layers.Concatenate(name=f"{block}.output")(branches)
    return x
