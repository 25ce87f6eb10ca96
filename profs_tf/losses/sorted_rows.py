"""Search in the sorted rows of a matrix.

Shapes: R rows of N numbers in ascending order; M numbers to look up in each.
"""

import tensorflow as tf


def count_not_above(in_order: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Returns how many numbers of a row are <= each of the row's ``values``.

    That is ``tf.searchsorted(in_order, values, side="right")``, which XLA carries out as a comparison of all
    with all: O(RNM) memory, here O(R (N + M)). Numbers and values are sorted together instead, a number
    before the values that equal it; what stands in front of a value is its count.

    Args:
        in_order: [R, N].
        values: [R, M], same dtype.

    Returns:
        [R, M] int32. Cost: O(R (N + M) log(N + M)).
    """
    size = tf.shape(in_order)[1]
    order = tf.argsort(tf.concat([in_order, values], axis=1), axis=1, stable=True)
    counts = tf.cumsum(tf.cast(order < size, tf.int32), axis=1)
    places = tf.argsort(order, axis=1)
    return tf.gather(counts, places[:, size:], batch_dims=1)
