"""GoogLeNet as published, without batch normalization, in Caffe's form (``bvlc_googlenet``).

Shapes: B images, H x W their height and width in pixels.

    images [B, H, W, 3], values 0..255  ->  feature map [B, h, w, 1024], h = w = 7 for 224 pixels

Szegedy et al., Going Deeper with Convolutions, CVPR 2015, table 1. The lifted structure, N-pair and
angular losses were published with this network. With batch normalization: `inception_v1`, `bn_inception`.

Local response normalization is Caffe's: each value is divided by
``(1 + alpha / 5 * sum of the squares of 5 neighboring channels) ** 0.75`` with alpha = 1e-4. TensorFlow's
operation does not divide alpha by the number of channels.

Layers carry Caffe's names with "." for "/": "inception_3a.5x5_reduce".

Differs: the first convolution takes RGB; its kernel is reversed once, when weights are read. The
    auxiliary classifiers and dropout before the classifier are left out, as everywhere in metric learning.
"""

from __future__ import annotations

import functools
from typing import Optional

import tensorflow as tf

from profs_tf.backbones.base import InputShape, PublishedWeights, backbone, centered_input, finalize
from profs_tf.backbones.layers import caffe as caffe_layers
from profs_tf.backbones.weights.caffe import load_caffe_blobs

# Mean red, green and blue that the published weights expect to be subtracted.
MEAN_RGB = (123.0, 117.0, 104.0)
_FIRST = "conv1.7x7_s2"
# Caffe's initial value of every bias of this network.
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


# A smaller image leaves one of the four pools one row, which it cannot take.
@backbone(
    min_size=31,
    published=PublishedWeights(
        origin="Caffe's model zoo, BVLC GoogLeNet, trained on ImageNet",
        license="released for unrestricted use",
        file_format="an .npz file of Caffe's blobs (profs_tf/backbones/weights/caffe.py makes one)",
        url="http://dl.caffe.berkeleyvision.org/bvlc_googlenet.caffemodel",
        files=("bvlc_googlenet.npz",),
        checksum="SHA-1 of the caffemodel: 405fc5acd08a3bb12de8ee5e23a96bec22f08204",
    ),
)
def googlenet(
    input_shape: InputShape,
    pretrained: Optional[str],
    batch_norm_momentum: Optional[float],
    seed: Optional[int],
) -> tf.keras.Model:
    """Builds GoogLeNet up to its last block: 5,973,552 trainable weights and no statistics.

    Args:
        input_shape: (height, width, 3).
        pretrained: Path of an .npz file of Caffe's blobs (`profs_tf.backbones.weights.caffe`), or of the
            archive that ``tools/convert_weights.py`` makes of it.
        batch_norm_momentum: Must be None: there is no batch normalization.
        seed: Seed of the initial weights.

    Returns:
        A model from images, float32 with values 0..255 and centered inside, to the output of "inception_5b".

    Raises:
        ValueError: If ``batch_norm_momentum`` is given, or ``pretrained`` does not hold exactly the weights
            of this network.
    """
    if batch_norm_momentum is not None:
        raise ValueError(
            "`batch_norm_momentum` must be None for googlenet, which has no batch normalization, got "
            f"{batch_norm_momentum}."
        )
    images, x = centered_input(input_shape, MEAN_RGB)
    x = _convolution(x, 64, 7, _FIRST, strides=2)
    x = _local_response_norm(caffe_layers.ceil_max_pool(x, "pool1.3x3_s2"), "pool1.norm1")
    x = _convolution(x, 64, 1, "conv2.3x3_reduce")
    x = _local_response_norm(_convolution(x, 192, 3, "conv2.3x3"), "conv2.norm2")
    x = caffe_layers.ceil_max_pool(x, "pool2.3x3_s2")
    x = caffe_layers.ceil_max_pool(_inception(x, _BLOCKS_3), "pool3.3x3_s2")
    x = caffe_layers.ceil_max_pool(_inception(x, _BLOCKS_4), "pool4.3x3_s2")
    load = functools.partial(load_caffe_blobs, bgr_input=_FIRST)
    return finalize(images, _inception(x, _BLOCKS_5), "googlenet", seed, pretrained, load)


def _convolution(x: tf.Tensor, filters: int, size: int, name: str, strides: int = 1) -> tf.Tensor:
    x = tf.keras.layers.Conv2D(
        filters,
        size,
        strides=strides,
        padding="valid",
        bias_initializer=tf.keras.initializers.Constant(_BIAS),
        name=name,
    )(caffe_layers.pad_for_convolution(x, size, name))
    return tf.keras.layers.ReLU(name=f"{name}.relu")(x)


def _local_response_norm(x: tf.Tensor, name: str) -> tf.Tensor:
    # Squares overflow in half precision. Keras wraps the operation in a stock layer, which loads anywhere.
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
