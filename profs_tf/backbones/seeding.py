"""Reproducible initial weights for any Keras model.

Keras initializers with a fixed seed return the same numbers each time they are called, so one seed shared by
all layers would give layers of one shape equal weights. Each kernel here has a seed of its own, derived from
the user's seed and the layer's name: neither the order of creation nor other models of the process matter.
"""

import zlib

import numpy as np
import tensorflow as tf

# What layers call their kernels, and what tells two kernels of one layer apart.
_KERNELS = {"kernel": "", "depthwise_kernel": "/depthwise", "pointwise_kernel": "/pointwise"}


def seed_kernels(root: tf.Module, seed: int) -> None:
    """Draws the kernels of every layer of ``root`` anew, as a pure function of (``seed``, layer name, shape).

    Args:
        root: A built Keras layer or model; nested ones are entered. Biases and batch normalization start from
            constants and are left alone.
        seed: Whole number >= 0.

    Raises:
        ValueError: If ``seed`` is negative or not a whole number.
    """
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"`seed` must be a whole number >= 0, got {seed!r}.")
    for layer in (root, *root.submodules):
        for word, own_name in _KERNELS.items():
            # Not every layer with an initializer has its kernel: those that convolve by depth inherit one.
            kernel = getattr(layer, word, None)
            initializer = getattr(layer, f"{word.split('_')[0]}_initializer", None)
            if isinstance(kernel, tf.Variable) and initializer is not None:
                _draw(kernel, initializer, [int(seed), zlib.crc32(f"{layer.name}{own_name}".encode())])


def _draw(kernel: tf.Variable, initializer: tf.keras.initializers.Initializer, entropy: list) -> None:
    seed = int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 1)
    config = {**initializer.get_config(), "seed": seed}
    kernel.assign(type(initializer).from_config(config)(kernel.shape, dtype=kernel.dtype))
