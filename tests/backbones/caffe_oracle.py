"""Caffe's layers as its documentation defines them, in NumPy loops and raw TensorFlow operations."""

import math

import numpy as np
import tensorflow as tf


def convolve(x, kernel, bias, strides=1, pad=0):
    """[B, H, W, C] by a kernel [out, in, height, width], with ``pad`` zeros on every side."""
    padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    return (
        tf.raw_ops.Conv2D(
            input=padded,
            filter=kernel.transpose(2, 3, 1, 0),
            strides=[1, strides, strides, 1],
            padding="VALID",
        ).numpy()
        + bias
    )


def pool(x, size, strides, pad=0, average=False):
    """Windows clipped to the map; the size rounded up, no window in the padding alone."""
    sides = []
    for side in x.shape[1:3]:
        count = math.ceil((side + 2 * pad - size) / strides) + 1
        if pad and (count - 1) * strides >= side + pad:
            count -= 1
        sides.append(count)
    out = np.zeros((len(x), *sides, x.shape[3]), x.dtype)
    for row in range(sides[0]):
        for column in range(sides[1]):
            (top, bottom, rows), (left, right, columns) = (
                _window(index * strides - pad, size, side, pad)
                for index, side in zip((row, column), x.shape[1:3])
            )
            window = x[:, top:bottom, left:right]
            # The mean counts the zeros of the padding, not what lies beyond it.
            out[:, row, column] = window.sum((1, 2)) / (rows * columns) if average else window.max((1, 2))
    return out


def _window(start, size, side, pad):
    end = min(start + size, side + pad)
    return max(start, 0), min(end, side), end - start


def normalize_across_channels(x, size=5, alpha=1e-4, beta=0.75):
    """Krizhevsky et al. 2012, section 3.3, with Caffe's alpha / size in place of alpha, and k = 1."""
    out = np.empty_like(x, np.float64)
    channels = x.shape[-1]
    for channel in range(channels):
        near = x[..., max(channel - size // 2, 0) : min(channel + size // 2 + 1, channels)].astype(np.float64)
        out[..., channel] = x[..., channel] / (1 + alpha / size * (near**2).sum(-1)) ** beta
    return out
