"""Operations that the losses share: means and log-sum-exps over masks, gathers and searches in rows.

Shapes: B images in the batch; R rows of N numbers.
"""

from collections.abc import Callable

import tensorflow as tf

_Round = Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]

_LONG_ROW = 4096
_INFINITY_BITS = 0x7F800000  # of a float32

NO_TERM = -1e30
"""The log-sum-exp of no terms: a finite "minus infinity", of which softplus and gradient are exactly 0."""


def masked_mean(terms: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Returns the mean of the terms in the mask, a scalar; exactly 0 with zero gradient if the mask is empty.

    Args:
        terms: Any shape; finite, outside the mask as well.
        mask: Same shape; bool, or 0 and 1 in the dtype of ``terms``.
    """
    mask = tf.cast(mask, terms.dtype)
    return tf.math.divide_no_nan(tf.reduce_sum(mask * terms), tf.reduce_sum(mask))


def masked_log_sum_exp(logits: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Returns ``log(sum_n exp(logits_n))`` over the last axis, of the logits in the mask; stable.

    Args:
        logits: [..., N]; finite.
        mask: [..., N] bool.

    Returns:
        [...], about NO_TERM with zero gradient if the mask is empty.
    """
    return tf.reduce_logsumexp(tf.where(mask, logits, tf.constant(NO_TERM, logits.dtype)), axis=-1)


def log_add_exp(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """Returns ``log(exp(a) + exp(b))``, with broadcasting; finite if both are NO_TERM."""
    peak = tf.stop_gradient(tf.maximum(a, b))
    return peak + tf.math.log(tf.exp(a - peak) + tf.exp(b - peak))


@tf.custom_gradient
def paired_log_sum_exp(logits: tf.Tensor, mask: tf.Tensor, pairs: tf.Tensor) -> tf.Tensor:
    """Returns ``log(sum_n exp(logits_in + logits_jn))`` of the pairs (i, j).

    The sums of all pairs together would be a [B, B, N] tensor. They are computed for one pair of each row at
    a time instead, and again for the gradient, so that memory stays O(BN). Time is O(PBN), where P is the
    largest number of pairs in a row: 1 for two images per class.

    Args:
        logits: [B, N]; finite.
        mask: [B, N] bool: the terms n of row i; the two rows of a pair have the same mask.
        pairs: [B, B] bool.

    Returns:
        [B, B]; 0 outside ``pairs`` and for pairs without a term.
    """
    # Otherwise an eager tape would keep every round of the loop, which is the [B, B, N] tensor again.
    logits = tf.stop_gradient(logits)
    with_terms = tf.logical_and(pairs, tf.reduce_any(mask, axis=1, keepdims=True))
    partners = tf.argsort(tf.cast(with_terms, tf.int32), axis=1, direction="DESCENDING", stable=True)
    num_partners = tf.reduce_sum(tf.cast(with_terms, tf.int32), axis=1)
    rounds = tf.reduce_max(num_partners)

    def sums_of(round_index: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns each row's partner j in this round, whether it has one [B, 1], and logits_i + logits_j."""
        partner = tf.gather(partners, round_index, axis=1)
        return partner, (round_index < num_partners)[:, tf.newaxis], logits + tf.gather(logits, partner)

    def at_partner(matrix: tf.Tensor, partner: tf.Tensor) -> tf.Tensor:
        """Returns the entry (i, j) of each row, [B, 1]."""
        return tf.gather(matrix, partner, batch_dims=1)[:, tf.newaxis]

    def forward(round_index: tf.Tensor, result: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        partner, has_partner, sums = sums_of(round_index)
        is_partner = tf.one_hot(partner, tf.shape(pairs)[1], on_value=True, off_value=False)
        is_pair = tf.logical_and(has_partner, is_partner)
        return round_index + 1, tf.where(is_pair, masked_log_sum_exp(sums, mask)[:, tf.newaxis], result)

    def rounds_of(body: _Round, start: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(lambda index, _: index < rounds, body, (tf.constant(0), start))[1]

    result = rounds_of(forward, tf.zeros(tf.shape(pairs), logits.dtype))

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, None, None]:
        def backward(round_index: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            partner, has_partner, sums = sums_of(round_index)
            log_softmax = sums - at_partner(result, partner)
            is_term = tf.logical_and(mask, has_partner)
            softmax = tf.exp(tf.where(is_term, log_softmax, tf.constant(NO_TERM, logits.dtype)))
            of_row = at_partner(upstream, partner) * softmax
            of_partner = tf.math.unsorted_segment_sum(of_row, partner, tf.shape(logits)[0])
            return round_index + 1, total + of_row + of_partner

        return rounds_of(backward, tf.zeros_like(logits)), None, None

    return result, gradient


def flat_indices(columns: tf.Tensor) -> tf.Tensor:
    """Returns the indices of the entries (i, columns[i, j]) in a flattened matrix.

    Args:
        columns: [R, N] int32; the matrix has the same shape.

    Returns:
        [R, N] int32.
    """
    shape = tf.shape(columns)
    return columns + shape[1] * tf.range(shape[0])[:, tf.newaxis]


def gather_in_rows(matrix: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """Returns the entries (i, columns[i, j]) of a matrix.

    Gathers from the flattened matrix: a gather with batch dimensions has no gradient for an empty batch.

    Args:
        matrix: [R, N].
        columns: [R, N] int32.

    Returns:
        [R, N], dtype of ``matrix``.
    """
    return tf.gather(tf.reshape(matrix, [-1]), flat_indices(columns))


def kth_smallest(rows: tf.Tensor, ranks: tf.Tensor) -> tf.Tensor:
    """Returns the number of the given rank in each row.

    Rows of a batch are sorted, in O(N log N). The long rows of a memory are not: non-negative floats are in
    the order of their bits, each of which is found by counting the numbers below a pivot, in O(32 N).

    Args:
        rows: [R, N], >= 0 or infinite.
        ranks: [R, 1] int32, 1 for the smallest number; at most N.

    Returns:
        [R, 1], dtype of ``rows``; minus infinity for rank 0.
    """
    minus_infinity = tf.constant(float("-inf"), rows.dtype)
    if rows.dtype != tf.float32 or (rows.shape[1] or 0) < _LONG_ROW:
        is_last = tf.range(tf.shape(rows)[1])[tf.newaxis, :] == ranks - 1
        in_order = tf.sort(rows, axis=1)
        return tf.reduce_max(tf.where(is_last, in_order, minus_infinity), axis=1, keepdims=True)

    def next_bit(bit: tf.Tensor, lower: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        pivot = tf.minimum(lower + tf.bitwise.left_shift(1, bit), _INFINITY_BITS)
        below = tf.cast(rows < tf.bitcast(pivot, tf.float32), tf.int32)
        count = tf.reduce_sum(below, axis=1, keepdims=True)
        return bit - 1, tf.where(count < ranks, pivot, lower)

    start = tf.constant(30), tf.zeros_like(ranks)
    bound = tf.bitcast(tf.while_loop(lambda bit, _: bit >= 0, next_bit, start)[1], tf.float32)
    # Where denormals count as 0, the bound may be one in place of a 0.
    in_reach = tf.logical_and(rows <= bound, ranks > 0)
    return tf.reduce_max(tf.where(in_reach, rows, minus_infinity), axis=1, keepdims=True)


def searchsorted_right(sorted_rows: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Returns how many numbers of a row are <= each of the row's ``values``.

    The same as ``tf.searchsorted(sorted_rows, values, side="right")``, which XLA implements by comparing all
    numbers with all values in O(RNV) memory; this takes O(R (N + V)). It sorts numbers and values together,
    numbers before equal values, and counts the numbers before each value.

    Args:
        sorted_rows: [R, N], each row in ascending order.
        values: [R, V], same dtype.

    Returns:
        [R, V] int32. Cost: O(R (N + V) log(N + V)).
    """
    size = tf.shape(sorted_rows)[1]
    order = tf.argsort(tf.concat([sorted_rows, values], axis=1), axis=1, stable=True)
    counts = tf.cumsum(tf.cast(order < size, tf.int32), axis=1)
    positions = tf.argsort(order, axis=1)
    return tf.gather(counts, positions[:, size:], batch_dims=1)
