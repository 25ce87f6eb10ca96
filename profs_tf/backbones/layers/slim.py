"""The layers of TF-Slim's networks as stock Keras layers.

Shapes: B images, H x W rows and columns, C channels: [B, H, W, C] -> [B, ceil(H / s), ceil(W / s), C'] with
strides s, for every layer.

Layers carry the names of TF-Slim's variable scopes with "." for "/", which every Keras file format can store.
"""

from __future__ import annotations

from typing import Callable, Optional

import tensorflow as tf

from profs_tf.backbones.base import MOMENTUM_FROM_SCRATCH

# Share of the old value that TF-Slim's moving statistics keep at a training step.
BATCH_NORM_DECAY = 0.9997


class SlimLayers:
    """Applies layers that share the momentum of their batch normalization and the kernels' initial values.

    Args:
        batch_norm_momentum: Share of the old value that moving statistics keep; None takes TF-Slim's 0.9997
            for ``pretrained`` weights and 0.9 for random ones, whose statistics start from 0 and 1 and would
            need ten thousand steps at 0.9997 before the network could be evaluated.
        pretrained: Whether published weights will be read.
        kernel_initializer: Returns a new initializer for a kernel.
    """

    def __init__(
        self,
        batch_norm_momentum: Optional[float],
        pretrained: bool,
        kernel_initializer: Callable[[], tf.keras.initializers.Initializer],
    ) -> None:
        if batch_norm_momentum is None:
            batch_norm_momentum = BATCH_NORM_DECAY if pretrained else MOMENTUM_FROM_SCRATCH
        self._momentum = batch_norm_momentum
        self._kernel_initializer = kernel_initializer

    def convolution(self, x: tf.Tensor, filters: int, size: int, name: str, strides: int = 1) -> tf.Tensor:
        """Applies a convolution without bias, batch normalization with a shift but no scale, and ReLU."""
        x = tf.keras.layers.Conv2D(
            filters,
            size,
            strides=strides,
            padding="same",
            use_bias=False,
            kernel_initializer=self._kernel_initializer(),
            name=name,
        )(x)
        x = tf.keras.layers.BatchNormalization(
            momentum=self._momentum, epsilon=1e-3, scale=False, name=f"{name}.BatchNorm"
        )(x)
        return tf.keras.layers.ReLU(name=f"{name}.Relu")(x)

    def max_pool(self, x: tf.Tensor, size: int, name: str, strides: int = 1) -> tf.Tensor:
        """Applies max pooling over ``size`` x ``size`` values."""
        return tf.keras.layers.MaxPooling2D(size, strides=strides, padding="same", name=name)(x)

    def average_pool(self, x: tf.Tensor, size: int, name: str) -> tf.Tensor:
        """Applies average pooling with strides of 1, which does not count values outside the map."""
        return tf.keras.layers.AveragePooling2D(size, strides=1, padding="same", name=name)(x)
