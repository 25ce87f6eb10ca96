"""Reproducible initial weights for any Keras model.

A Keras initializer with a fixed seed returns the same numbers at each call, so layers of equal shape that
share a seed would have equal weights. Here each kernel has its own seed, derived from the user's seed and the
layer's name; neither the order of creation nor other models in the process matter.
"""

import zlib

import numpy as np
import tensorflow as tf

from profs_tf.utils.checks import check_count

# Names of kernels among a layer's attributes, and the suffixes that give two kernels of one layer two seeds.
_KERNELS = {"kernel": "", "depthwise_kernel": "/depthwise", "pointwise_kernel": "/pointwise"}


def seed_kernels(root: tf.Module, seed: int) -> None:
    """Redraws the kernels of every layer of ``root`` as a pure function of (``seed``, layer name, shape).

    Args:
        root: A built Keras layer or model, with nested ones. Biases and batch normalization, which start from
            constants, are not changed.
        seed: Whole number >= 0.

    Raises:
        ValueError: If ``seed`` is negative or not a whole number.
    """
    seed = check_count("seed", seed, minimum=0)
    for layer in (root, *root.submodules):
        for word, own_name in _KERNELS.items():
            # Depthwise convolutions inherit an initializer for a kernel that they do not have.
            kernel = getattr(layer, word, None)
            initializer = getattr(layer, f"{word.split('_')[0]}_initializer", None)
            if isinstance(kernel, tf.Variable) and initializer is not None:
                _draw(kernel, initializer, [seed, zlib.crc32(f"{layer.name}{own_name}".encode())])


def _draw(kernel: tf.Variable, initializer: tf.keras.initializers.Initializer, entropy: list) -> None:
    seed = int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 1)
    config = {**initializer.get_config(), "seed": seed}
    kernel.assign(type(initializer).from_config(config)(kernel.shape, dtype=kernel.dtype))
