"""Log-sum-exp over the terms of a mask, stable for logits of any size.

Shapes: B images in the batch; K logits in a row.
"""

from collections.abc import Callable

import tensorflow as tf

_Round = Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]

NO_TERM = -1e30
"""The log-sum-exp of no term at all: a finite "minus infinity", whose softplus and gradient are exactly 0."""


def masked_log_sum_exp(logits: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Returns ``log(sum_k exp(logits_k))`` over the last axis, of the terms in the mask.

    Args:
        logits: [..., K]; finite.
        mask: [..., K] bool.

    Returns:
        [...], about NO_TERM with zero gradient where the mask is empty.
    """
    return tf.reduce_logsumexp(tf.where(mask, logits, tf.constant(NO_TERM, logits.dtype)), axis=-1)


def log_add_exp(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """Returns ``log(exp(a) + exp(b))`` of two tensors that broadcast; finite where both are NO_TERM."""
    peak = tf.stop_gradient(tf.maximum(a, b))
    return peak + tf.math.log(tf.exp(a - peak) + tf.exp(b - peak))


@tf.custom_gradient
def paired_log_sum_exp(logits: tf.Tensor, mask: tf.Tensor, pairs: tf.Tensor) -> tf.Tensor:
    """Returns ``log(sum_k exp(logits_ik + logits_jk))`` of the pairs (i, j).

    All at once this is a [B, B, K] object. It is computed for one pair of every row at a time instead, and
    computed again for the gradient, so that memory stays O(BK). Time is O(PBK), where P is the largest number
    of pairs in a row: 1 for two images per class.

    Args:
        logits: [B, K]; finite.
        mask: [B, K] bool: the terms k of row i; rows i and j of a pair have the same.
        pairs: [B, B] bool.

    Returns:
        [B, B]; 0 outside ``pairs`` and where a pair has no term.
    """
    # Without this an eager tape would keep every round of the loop, the [B, B, K] object after all.
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
        partner, present, sums = sums_of(round_index)
        place = tf.logical_and(
            present, tf.one_hot(partner, tf.shape(pairs)[1], on_value=True, off_value=False)
        )
        return round_index + 1, tf.where(place, masked_log_sum_exp(sums, mask)[:, tf.newaxis], result)

    def rounds_of(body: _Round, start: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(lambda index, _: index < rounds, body, (tf.constant(0), start))[1]

    result = rounds_of(forward, tf.zeros(tf.shape(pairs), logits.dtype))

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, None, None]:
        def backward(round_index: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            partner, present, sums = sums_of(round_index)
            log_shares = sums - at_partner(result, partner)
            counted = tf.logical_and(mask, present)
            shares = tf.exp(tf.where(counted, log_shares, tf.constant(NO_TERM, logits.dtype)))
            change = at_partner(upstream, partner) * shares
            to_partner = tf.math.unsorted_segment_sum(change, partner, tf.shape(logits)[0])
            return round_index + 1, total + change + to_partner

        return rounds_of(backward, tf.zeros_like(logits)), None, None

    return result, gradient
