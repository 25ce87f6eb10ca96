"""Random numbers that depend on the content of the batch only.

The draws of a loss must not depend on the order of the batch or on earlier calls: a resumed run has to draw
the same numbers as an uninterrupted one. Hence there is no generator with a state, and no counter to save.
Each number comes from a hash of the two embeddings of its pair. Embeddings change with every step, and so do
the draws; images with equal embeddings draw equal numbers.

Shapes: B images in the batch, N candidates, D embedding dimensions.
"""

from typing import Optional

import tensorflow as tf

_GOLDEN = -7046029254386353131  # 2^64 / golden ratio, as a signed number
_MIX = (-4658895280553007687, -7723592293110705685)  # the multipliers of splitmix64, as signed numbers


def _shift_right(values: tf.Tensor, bits: int) -> tf.Tensor:
    """Returns a logical shift. Not every device multiplies unsigned integers, hence the signed ones."""
    shifted = tf.bitwise.right_shift(values, tf.constant(bits, tf.int64))
    return tf.bitwise.bitwise_and(shifted, 2 ** (64 - bits) - 1)


def _mixed(values: tf.Tensor) -> tf.Tensor:
    """Returns int64 values of which each bit depends on all bits of ``values``.

    The finalizer of splitmix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", OOPSLA
    2014). Products wrap around at 2^64 on every device.
    """
    values = tf.bitwise.bitwise_xor(values, _shift_right(values, 30)) * _MIX[0]
    values = tf.bitwise.bitwise_xor(values, _shift_right(values, 27)) * _MIX[1]
    return tf.bitwise.bitwise_xor(values, _shift_right(values, 31))


def _hashes(embeddings: tf.Tensor, seed: int) -> tf.Tensor:
    """Returns a hash of the bits of each embedding, [B] int64.

    A sum of integer products wraps around instead of rounding, so that, unlike a sum of floats, it does not
    depend on the order of its terms.
    """
    bits = tf.bitcast(embeddings, tf.int64 if embeddings.dtype == tf.float64 else tf.int32)
    positions = tf.range(1, tf.shape(embeddings)[1] + 1, dtype=tf.int32)
    factors = tf.bitwise.bitwise_or(_mixed((tf.cast(positions, tf.int64) + seed) * _GOLDEN), 1)
    return _mixed(tf.reduce_sum(tf.cast(bits, tf.int64) * factors, axis=1))


def pair_uniforms(embeddings: tf.Tensor, seed: int, candidates: Optional[tf.Tensor] = None) -> tf.Tensor:
    """Returns a number drawn uniformly from [0, 1) for each ordered pair (i, j).

    Args:
        embeddings: [B, D] float32 or float64.
        seed: Seed of the draw.
        candidates: [N, D], the second elements of the pairs; None: ``embeddings``.

    Returns:
        [B, N] float64, multiples of 2^-53; the number of (i, j) depends on E_i, E_j and ``seed`` only.
    """
    hashes = _hashes(embeddings, seed)
    others = hashes if candidates is None else _hashes(candidates, seed)
    pairs = _mixed(hashes[:, tf.newaxis] * _GOLDEN + others[tf.newaxis, :])
    return tf.cast(_shift_right(pairs, 11), tf.float64) * 2.0**-53
