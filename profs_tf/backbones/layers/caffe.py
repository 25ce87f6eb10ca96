"""Caffe's padding in stock Keras layers, which differs from TensorFlow's "same".

Shapes: B images, H x W rows and columns, C channels: [B, H, W, C] -> [B, H', W', C'].

Caffe pads convolutions by the same number of zeros on both sides, where TensorFlow's "same" puts the odd one
at the end; rounds the size of a pooled map up, where TensorFlow's "valid" rounds down; and counts zeros in
the averages at the border, where TensorFlow's "same" does not.
"""

from __future__ import annotations

import tensorflow as tf


def pad_for_convolution(x: tf.Tensor, size: int, name: str) -> tf.Tensor:
    """Returns ``x`` with zeros around it for a convolution of ``size`` x ``size``: size // 2 a side."""
    if size == 1:
        return x
    return tf.keras.layers.ZeroPadding2D(size // 2, name=f"{name}.pad")(x)


def ceil_max_pool(x: tf.Tensor, name: str) -> tf.Tensor:
    """3 x 3 max pooling with strides of 2 and the size rounded up: H' = ceil((H - 3) / 2) + 1.

    A row and a column of zeros at the end complete the last window. It always holds a value of ``x``, so the
    zeros do not change a maximum of values >= 0.

    Args:
        x: [B, H, W, C], H and W >= 2, every value >= 0.
        name: Of the layer.
    """
    x = tf.keras.layers.ZeroPadding2D(((0, 1), (0, 1)), name=f"{name}.pad")(x)
    return tf.keras.layers.MaxPooling2D(3, strides=2, padding="valid", name=name)(x)


def average_pool(x: tf.Tensor, name: str) -> tf.Tensor:
    """3 x 3 average pooling with strides of 1 that counts the zeros around the map: H' = H."""
    x = tf.keras.layers.ZeroPadding2D(1, name=f"{name}.pad")(x)
    return tf.keras.layers.AveragePooling2D(3, strides=1, padding="valid", name=name)(x)


def max_pool(x: tf.Tensor, name: str, strides: int = 1) -> tf.Tensor:
    """3 x 3 max pooling without padding values, H' = ceil(H / strides): Caffe's for strides 1 or even H."""
    return tf.keras.layers.MaxPooling2D(3, strides=strides, padding="same", name=name)(x)
