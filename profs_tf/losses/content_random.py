"""Random numbers that are a function of what is in the batch, and of nothing else.

A loss that draws must not depend on the order of the batch, nor on how often it was called before: a run that
is resumed has to draw what it would have drawn. So there is neither a running generator nor a counter to
save; each number comes from a hash of the two embeddings it is for. Since these change with every step, so do
the draws; two images of one and the same embedding draw alike.

Shapes: B images in the batch, D embedding dimensions.
"""

import tensorflow as tf

_GOLDEN = -7046029254386353131  # 2^64 / golden ratio, as a signed number
_MIX = (-4658895280553007687, -7723592293110705685)  # the multipliers of splitmix64, as signed numbers


def _shift_right(values: tf.Tensor, bits: int) -> tf.Tensor:
    """Returns the shift as of unsigned numbers, for which not every device has products."""
    shifted = tf.bitwise.right_shift(values, tf.constant(bits, tf.int64))
    return tf.bitwise.bitwise_and(shifted, 2 ** (64 - bits) - 1)


def _mixed(values: tf.Tensor) -> tf.Tensor:
    """Returns int64 values in which each bit depends on all bits of ``values``.

    The finaliser of splitmix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", OOPSLA
    2014). Products wrap around at 2^64 on every device.
    """
    values = tf.bitwise.bitwise_xor(values, _shift_right(values, 30)) * _MIX[0]
    values = tf.bitwise.bitwise_xor(values, _shift_right(values, 27)) * _MIX[1]
    return tf.bitwise.bitwise_xor(values, _shift_right(values, 31))


def _hashes(embeddings: tf.Tensor, seed: int) -> tf.Tensor:
    """Returns a hash of the bits of each embedding, [B] int64.

    A sum of integer products: it wraps around instead of rounding, so its order does not matter, as that of a
    sum of floats would.
    """
    bits = tf.bitcast(embeddings, tf.int64 if embeddings.dtype == tf.float64 else tf.int32)
    places = tf.range(1, tf.shape(embeddings)[1] + 1, dtype=tf.int32)
    factors = tf.bitwise.bitwise_or(_mixed((tf.cast(places, tf.int64) + seed) * _GOLDEN), 1)
    return _mixed(tf.reduce_sum(tf.cast(bits, tf.int64) * factors, axis=1))


def pair_uniforms(embeddings: tf.Tensor, seed: int) -> tf.Tensor:
    """Returns for each ordered pair (i, j) a number drawn evenly from [0, 1).

    Args:
        embeddings: [B, D] float32 or float64.
        seed: another seed, another draw of all pairs.

    Returns:
        [B, B] float64, a multiple of 2^-53; that of (i, j) depends on E_i, E_j and ``seed`` only.
    """
    hashes = _hashes(embeddings, seed)
    pairs = _mixed(hashes[:, tf.newaxis] * _GOLDEN + hashes[tf.newaxis, :])
    return tf.cast(_shift_right(pairs, 11), tf.float64) * 2.0**-53
