"""Inception V2 as TF-Slim publishes it: its network of the batch normalization paper.

Shapes: B images, H x W their height and width in pixels.

    images [B, H, W, 3], values 0..255  ->  feature map [B, ceil(H / 32), ceil(W / 32), 1024]

Ioffe and Szegedy, Batch Normalization, ICML 2015, appendix.

`bn_inception`, the network of the metric-learning literature, differs: another first convolution, padding,
epsilon, and filters of two blocks. Neither takes the other's weights, and results of one cannot be compared
with results of the other.

Differs: from the publication as TF-Slim's network does, so that TF-Slim's weights fit. The first convolution
    is separable, with a bias and without batch normalization; batch normalization shifts but does not scale.

Layers carry the names of TF-Slim's variable scopes with "." for "/", see `inception_v1`.
"""

from __future__ import annotations

import functools
from typing import Optional

import tensorflow as tf

from profs_tf.backbones.base import InputShape, PublishedWeights, backbone, finalize, rescaled_input
from profs_tf.backbones.layers.slim import SlimLayers
from profs_tf.backbones.weights.slim import load_slim_checkpoint

SLIM_SCOPE = "InceptionV2"

# Filters of the blocks: 1x1; 1x1 and 3x3; 1x1 and both 3x3; 1x1 after the pool. 0: no such convolution.
_BLOCKS = {
    "Mixed_3b": (64, (64, 64), (64, 96), 32),
    "Mixed_3c": (64, (64, 96), (64, 96), 64),
    "Mixed_4a": (0, (128, 160), (64, 96), 0),
    "Mixed_4b": (224, (64, 96), (96, 128), 128),
    "Mixed_4c": (192, (96, 128), (96, 128), 128),
    "Mixed_4d": (160, (128, 160), (128, 160), 96),
    "Mixed_4e": (96, (128, 192), (160, 192), 96),
    "Mixed_5a": (0, (128, 192), (192, 256), 0),
    "Mixed_5b": (352, (192, 320), (160, 224), 128),
    "Mixed_5c": (352, (192, 320), (192, 224), 128),
}
_MAX_POOLED = "Mixed_5c"
_CHANNEL_MULTIPLIER = 8


@backbone(
    published=PublishedWeights(
        origin="TF-Slim's checkpoint, trained on ImageNet",
        license="its repository is under the Apache License 2.0",
        file_format="a TensorFlow checkpoint of TF-Slim",
        url="http://download.tensorflow.org/models/inception_v2_2016_08_28.tar.gz",
        files=("inception_v2.ckpt",),
    )
)
def inception_v2(
    input_shape: InputShape,
    pretrained: Optional[str],
    batch_norm_momentum: Optional[float],
    seed: Optional[int],
) -> tf.keras.Model:
    """Builds Inception V2 up to its last block: 10,153,336 trainable weights, 19,776 moving statistics.

    Args:
        input_shape: (height, width, 3).
        pretrained: Path of a TF-Slim checkpoint of this network (``inception_v2.ckpt``, published as
            ``inception_v2_2016_08_28.tar.gz``), in either of TensorFlow's formats; or of the
            archive that ``tools/convert_weights.py`` makes of it.
        batch_norm_momentum: Share of the old value that the moving statistics keep at each training step.
            Default: TF-Slim's 0.9997 with ``pretrained``, 0.9 without (`SlimLayers`).
        seed: Seed of the initial weights.

    Returns:
        A model from images, float32 with values 0..255 and scaled to -1..1 inside, to the output of
        "Mixed_5c".

    Raises:
        ValueError: If ``pretrained`` is not a complete checkpoint of this network.
    """
    build = SlimLayers(batch_norm_momentum, pretrained is not None, tf.keras.initializers.HeNormal)
    images, x = rescaled_input(input_shape)
    x = _first_convolution(x)
    x = build.max_pool(x, 3, "MaxPool_2a_3x3", strides=2)
    x = build.convolution(x, 64, 1, "Conv2d_2b_1x1")
    x = build.convolution(x, 192, 3, "Conv2d_2c_3x3")
    x = build.max_pool(x, 3, "MaxPool_3a_3x3", strides=2)
    for block, filters in _BLOCKS.items():
        x = _mixed(build, x, block, *filters)
    load = functools.partial(load_slim_checkpoint, scope=SLIM_SCOPE)
    return finalize(images, x, "inception_v2", seed, pretrained, load)


def _first_convolution(x: tf.Tensor) -> tf.Tensor:
    x = tf.keras.layers.SeparableConv2D(
        64,
        7,
        strides=2,
        padding="same",
        depth_multiplier=_CHANNEL_MULTIPLIER,
        depthwise_initializer=tf.keras.initializers.TruncatedNormal(stddev=1.0),
        pointwise_initializer=tf.keras.initializers.TruncatedNormal(stddev=1.0),
        name="Conv2d_1a_7x7",
    )(x)
    return tf.keras.layers.ReLU(name="Conv2d_1a_7x7.Relu")(x)


def _mixed(
    build: SlimLayers, x: tf.Tensor, block: str, direct: int, single: tuple, double: tuple, pooled: int
) -> tf.Tensor:
    branches = [build.convolution(x, direct, 1, f"{block}.Branch_0.Conv2d_0a_1x1")] if direct else []
    # Blocks without a direct branch halve the map, in the last convolution of a branch.
    strides, last = (1, "Conv2d_0{}_3x3") if direct else (2, "Conv2d_1a_3x3")
    for filters, letters in ((single, "b"), (double, "bc")):
        scope = f"{block}.Branch_{len(branches)}"
        branch = build.convolution(x, filters[0], 1, f"{scope}.Conv2d_0a_1x1")
        if len(letters) == 2:
            branch = build.convolution(branch, filters[1], 3, f"{scope}.Conv2d_0b_3x3")
        branches.append(
            build.convolution(branch, filters[1], 3, f"{scope}.{last.format(letters[-1])}", strides)
        )
    scope = f"{block}.Branch_{len(branches)}"
    if not direct:
        branch = build.max_pool(x, 3, f"{scope}.MaxPool_1a_3x3", strides)
    elif block == _MAX_POOLED:
        branch = build.max_pool(x, 3, f"{scope}.MaxPool_0a_3x3")
    else:
        branch = build.average_pool(x, 3, f"{scope}.AvgPool_0a_3x3")
    if pooled:
        branch = build.convolution(branch, pooled, 1, f"{scope}.Conv2d_0b_1x1")
    return tf.keras.layers.Concatenate(name=block)([*branches, branch])
