"""Reproducible initial weights for any Keras model.

Keras initialisers with a fixed seed return the same numbers each time they are called, so one seed shared by
all layers would give layers of one shape equal weights. Each kernel here has a seed of its own, derived from
the user's seed and the layer's name: neither the order of creation nor other models of the process matter.
"""

import zlib

import numpy as np
import tensorflow as tf


def seed_kernels(root: tf.Module, seed: int) -> None:
    """Draws the kernel of every layer of ``root`` anew, as a pure function of (``seed``, layer name, shape).

    Args:
        root: A built Keras layer or model; nested ones are entered. Biases and batch normalisation start from
            constants and are left alone.
        seed: Whole number >= 0.

    Raises:
        ValueError: If ``seed`` is negative or not a whole number.
    """
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"`seed` must be a whole number >= 0, got {seed!r}.")
    for layer in (root, *root.submodules):
        initializer = getattr(layer, "kernel_initializer", None)
        if initializer is None:
            continue
        entropy = np.random.SeedSequence([int(seed), zlib.crc32(layer.name.encode())])
        config = {**initializer.get_config(), "seed": int(entropy.generate_state(1)[0] >> 1)}
        kernel = layer.kernel
        kernel.assign(type(initializer).from_config(config)(kernel.shape, dtype=kernel.dtype))
