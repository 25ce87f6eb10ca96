"""BN-Inception, the network of most of the metric-learning literature, as Caffe and PyTorch run it.

Shapes: B images, H x W their height and width in pixels.

    images [B, H, W, 3], values 0..255  ->  feature map [B, h, w, 1024], h = w = 7 for 224 pixels

Ioffe and Szegedy, Batch Normalization, ICML 2015, appendix; as the published weights have it that proxy-NCA,
SoftTriple, multi-similarity and proxy-anchor start from (``bn_inception`` in PyTorch).

Not to be mistaken for `inception_v2`, TF-Slim's network of the same paper: that one has a separable first
convolution, fewer filters in two blocks, TensorFlow's padding and an epsilon of 1e-3. Neither takes the
other's weights, and figures of one are no figures of the other.

Every convolution has a bias, which batch normalisation cancels in training, since the weights have one.
Layers carry the names of the PyTorch modules: "inception_3a_1x1" and its "inception_3a_1x1_bn".

Differs: the first convolution takes RGB; its kernel is turned around once, when weights are read. The pools
    of the two reducing blocks (3c, 4e) are Caffe's for maps of even size, and give maps of odd size the size
    that the block's convolutions give, where Caffe's network cannot be applied. Blocks 4c and 4d have 128
    filters after the pool, as the weights have, and not the publication's 96.
"""

from __future__ import annotations

import functools
from typing import Optional

import tensorflow as tf

from profs_tf.backbones.common import MOMENTUM_FROM_SCRATCH, centred_images, check_rgb, finished
from profs_tf.backbones.layers import caffe as caffe_layers
from profs_tf.backbones.weights.pytorch.state_dict import load_state_dict

# Mean red, green and blue that the published weights expect subtracted.
MEAN_RGB = (128.0, 117.0, 104.0)
# A smaller image leaves the second pool one row, which it cannot take.
SMALLEST_SIDE = 7
_FIRST = "conv1_7x7_s2"
_EPSILON = 1e-5

# Filters of the blocks: 1x1; 3x3 reduce, 3x3; double 3x3 reduce, both 3x3; after the pool. 0: no convolution.
_BLOCKS = {
    "inception_3a": (64, (64, 64), (64, 96), 32),
    "inception_3b": (64, (64, 96), (64, 96), 64),
    "inception_3c": (0, (128, 160), (64, 96), 0),
    "inception_4a": (224, (64, 96), (96, 128), 128),
    "inception_4b": (192, (96, 128), (96, 128), 128),
    "inception_4c": (160, (128, 160), (128, 160), 128),
    "inception_4d": (96, (128, 192), (160, 192), 128),
    "inception_4e": (0, (128, 192), (192, 256), 0),
    "inception_5a": (352, (192, 320), (160, 224), 128),
    "inception_5b": (352, (192, 320), (192, 224), 128),
}
_MAX_POOLED = "inception_5b"


def bn_inception(
    input_shape: tuple[Optional[int], Optional[int], int] = (None, None, 3),
    *,
    pretrained: Optional[str] = None,
    batch_norm_momentum: Optional[float] = None,
    seed: Optional[int] = None,
) -> tf.keras.Model:
    """Builds BN-Inception up to its last block: 10,270,240 trainable weights, 20,032 moving statistics.

    Args:
        input_shape: (height, width, 3); height and width may be None, otherwise at least 7 pixels.
        pretrained: Path of the published PyTorch state dict, in either of PyTorch's formats
            (`profs_tf.backbones.weights.pytorch.file`), or of what ``tools/convert_weights.py`` made of it.
        batch_norm_momentum: Share of the old value that the moving statistics keep at each training step.
            Default 0.9.
        seed: Makes the initial weights a pure function of this whole number; None draws them from Keras's
            global generator.

    Returns:
        A model from images, float32 with values 0..255 and centred inside, to the output of "inception_5b".

    Raises:
        ValueError: If the images are too small or not RGB, or ``pretrained`` does not hold exactly the
            weights of this network.
    """
    check_rgb(input_shape, SMALLEST_SIDE)
    build = _Blocks(MOMENTUM_FROM_SCRATCH if batch_norm_momentum is None else batch_norm_momentum)
    images, x = centred_images(input_shape, MEAN_RGB)
    x = build.convolution(x, 64, 7, _FIRST, strides=2)
    x = caffe_layers.ceil_max_pool(x, "pool1_3x3_s2")
    x = build.convolution(x, 64, 1, "conv2_3x3_reduce")
    x = build.convolution(x, 192, 3, "conv2_3x3")
    x = caffe_layers.ceil_max_pool(x, "pool2_3x3_s2")
    for block, filters in _BLOCKS.items():
        x = build.inception(x, block, *filters)
    load = functools.partial(load_state_dict, blue_first=_FIRST)
    return finished(images, x, "bn_inception", seed, pretrained, load)


class _Blocks:
    """Applies the building blocks, which share the momentum of their batch normalisation."""

    def __init__(self, batch_norm_momentum: float) -> None:
        self._momentum = batch_norm_momentum

    def convolution(self, x: tf.Tensor, filters: int, size: int, name: str, strides: int = 1) -> tf.Tensor:
        x = tf.keras.layers.Conv2D(
            filters, size, strides=strides, padding="valid", kernel_initializer="he_normal", name=name
        )(caffe_layers.padded(x, size, name))
        x = tf.keras.layers.BatchNormalization(momentum=self._momentum, epsilon=_EPSILON, name=f"{name}_bn")(
            x
        )
        return tf.keras.layers.ReLU(name=f"{name}_relu")(x)

    def inception(
        self,
        x: tf.Tensor,
        block: str,
        direct: int,
        single: tuple[int, int],
        double: tuple[int, int],
        pooled: int,
    ) -> tf.Tensor:
        strides = 1 if direct else 2
        branches = [self.convolution(x, direct, 1, f"{block}_1x1")] if direct else []
        branch = self.convolution(x, single[0], 1, f"{block}_3x3_reduce")
        branches.append(self.convolution(branch, single[1], 3, f"{block}_3x3", strides))
        branch = self.convolution(x, double[0], 1, f"{block}_double_3x3_reduce")
        branch = self.convolution(branch, double[1], 3, f"{block}_double_3x3_1")
        branches.append(self.convolution(branch, double[1], 3, f"{block}_double_3x3_2", strides))
        branches.append(self._pool(x, block, pooled, strides))
        return tf.keras.layers.Concatenate(name=block)(branches)

    def _pool(self, x: tf.Tensor, block: str, pooled: int, strides: int) -> tf.Tensor:
        name = f"{block}_pool"
        if not pooled or block == _MAX_POOLED:
            x = caffe_layers.max_pool(x, name, strides)
        else:
            x = caffe_layers.average_pool(x, name)
        return self.convolution(x, pooled, 1, f"{name}_proj") if pooled else x
