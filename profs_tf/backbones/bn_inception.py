"""BN-Inception, the network of most of the metric-learning literature, as Caffe and PyTorch run it.

Shapes: B images, H x W their height and width in pixels.

    images [B, H, W, 3], values 0..255  ->  feature map [B, h, w, 1024], h = w = 7 for 224 pixels

Ioffe and Szegedy, Batch Normalization, ICML 2015, appendix; in the form of the published weights
(``bn_inception`` in PyTorch) that proxy-NCA, SoftTriple, multi-similarity and proxy-anchor start from.

`inception_v2` is TF-Slim's network of the same paper, and differs: a separable first convolution, fewer
filters in two blocks, TensorFlow's padding and an epsilon of 1e-3. Neither takes the other's weights, and
results of one cannot be compared with results of the other.

Every convolution has a bias, as in the published weights, although batch normalization cancels it in
training. Layers carry the names of the PyTorch modules: "inception_3a_1x1" and its "inception_3a_1x1_bn".

Differs: the first convolution takes RGB; its kernel is reversed once, when weights are read. The pools of
    the two reducing blocks (3c, 4e) are Caffe's for maps of even size; for maps of odd size, which Caffe's
    network cannot take, they give the size of the block's convolutions. Blocks 4c and 4d have 128
    filters after the pool, as the weights do, not the publication's 96.
"""

from __future__ import annotations

import functools
from typing import Optional

import tensorflow as tf

from profs_tf.backbones.base import (
    MOMENTUM_FROM_SCRATCH,
    InputShape,
    PublishedWeights,
    backbone,
    centered_input,
    finalize,
)
from profs_tf.backbones.layers import caffe as caffe_layers
from profs_tf.backbones.weights.pytorch.state_dict import load_state_dict

# Mean red, green and blue that the published weights expect to be subtracted.
MEAN_RGB = (128.0, 117.0, 104.0)
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


# A smaller image leaves the second pool one row, which it cannot take.
@backbone(
    min_size=7,
    published=PublishedWeights(
        origin="Caffe's BN-Inception as a PyTorch state dict, trained on ImageNet",
        license="the file states no license",
        file_format="a PyTorch state dict or .safetensors file",
        url="http://data.lip6.fr/cadene/pretrainedmodels/bn_inception-52deb4733.pth",
        files=("bn_inception-52deb4733.pth",),
        checksum="its SHA-256 starts with 52deb4733",
    ),
)
def bn_inception(
    input_shape: InputShape,
    pretrained: Optional[str],
    batch_norm_momentum: Optional[float],
    seed: Optional[int],
) -> tf.keras.Model:
    """Builds BN-Inception up to its last block: 10,270,240 trainable weights, 20,032 moving statistics.

    Args:
        input_shape: (height, width, 3).
        pretrained: Path of the published PyTorch state dict, in either of PyTorch's formats
            (`profs_tf.backbones.weights.pytorch.state_dict`), or of the archive that
            ``tools/convert_weights.py`` makes of it.
        batch_norm_momentum: Share of the old value that the moving statistics keep at each training step.
            Default 0.9.
        seed: Seed of the initial weights.

    Returns:
        A model from images, float32 with values 0..255 and centered inside, to the output of "inception_5b".

    Raises:
        ValueError: If ``pretrained`` does not hold exactly the weights of this network.
    """
    build = _Blocks(MOMENTUM_FROM_SCRATCH if batch_norm_momentum is None else batch_norm_momentum)
    images, x = centered_input(input_shape, MEAN_RGB)
    x = build.convolution(x, 64, 7, _FIRST, strides=2)
    x = caffe_layers.ceil_max_pool(x, "pool1_3x3_s2")
    x = build.convolution(x, 64, 1, "conv2_3x3_reduce")
    x = build.convolution(x, 192, 3, "conv2_3x3")
    x = caffe_layers.ceil_max_pool(x, "pool2_3x3_s2")
    for block, filters in _BLOCKS.items():
        x = build.inception(x, block, *filters)
    load = functools.partial(load_state_dict, bgr_input=_FIRST)
    return finalize(images, x, "bn_inception", seed, pretrained, load)


class _Blocks:
    """Applies building blocks that share the momentum of their batch normalization."""

    def __init__(self, batch_norm_momentum: float) -> None:
        self._momentum = batch_norm_momentum

    def convolution(self, x: tf.Tensor, filters: int, size: int, name: str, strides: int = 1) -> tf.Tensor:
        x = tf.keras.layers.Conv2D(
            filters, size, strides=strides, padding="valid", kernel_initializer="he_normal", name=name
        )(caffe_layers.pad_for_convolution(x, size, name))
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
