"""Caffe's padding in stock Keras layers: where its windows lie differs from TensorFlow's "same".

Shapes: B images, H x W rows and columns, C channels: [B, H, W, C] -> [B, H', W', C'].

Caffe pads convolutions by the same number of zeros on both sides, where TensorFlow's "same" gives the odd one
to the end; rounds the size of a pooled map up, where TensorFlow's "valid" rounds down; and counts zeros in
the averages at the border, where TensorFlow's "same" leaves them out.
"""

from __future__ import annotations

import tensorflow as tf


def padded(x: tf.Tensor, size: int, name: str) -> tf.Tensor:
    """Returns ``x`` with zeros around it for a convolution of ``size`` x ``size``: size // 2 a side."""
    if size == 1:
        return x
    return tf.keras.layers.ZeroPadding2D(size // 2, name=f"{name}.pad")(x)


def ceil_max_pool(x: tf.Tensor, name: str) -> tf.Tensor:
    """3 x 3 maximum by strides of 2 with the size rounded up: H' = ceil((H - 3) / 2) + 1.

    A row and a column of zeros at the end give the last window its size. It always holds a value of ``x``, so
    that zeros change no maximum where, as here, no value is below 0.

    Args:
        x: [B, H, W, C], H and W >= 2, every value >= 0.
        name: Of the layer.
    """
    x = tf.keras.layers.ZeroPadding2D(((0, 1), (0, 1)), name=f"{name}.pad")(x)
    return tf.keras.layers.MaxPooling2D(3, strides=2, padding="valid", name=name)(x)


def average_pool(x: tf.Tensor, name: str) -> tf.Tensor:
    """3 x 3 mean by strides of 1, the zeros around the map counted: H' = H."""
    x = tf.keras.layers.ZeroPadding2D(1, name=f"{name}.pad")(x)
    return tf.keras.layers.AveragePooling2D(3, strides=1, padding="valid", name=name)(x)


def max_pool(x: tf.Tensor, name: str, strides: int = 1) -> tf.Tensor:
    """3 x 3 maximum, H' = ceil(H / strides); padding never counts. Caffe's own for strides 1, or even H."""
    return tf.keras.layers.MaxPooling2D(3, strides=strides, padding="same", name=name)(x)
