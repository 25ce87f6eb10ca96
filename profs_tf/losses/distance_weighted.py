"""Distance-weighted choice of negative pairs.

Wu, Manmatha, Smola, Krähenbühl: "Sampling Matters in Deep Embedding Learning", ICCV 2017.

Shapes: B images in the batch, D embedding dimensions. Matrices are [B, B]; the row is the query.
"""

import tensorflow as tf

from profs_tf.losses.batch import Batch
from profs_tf.losses.content_random import pair_uniforms
from profs_tf.losses.distances import cells
from profs_tf.losses.sorted_rows import count_not_above

CLOSEST = 0.5
"""Nearer negatives are drawn as if they were this far: their gradients are mostly noise."""
FARTHEST = 1.4
"""Negatives beyond are not drawn: at the default boundary and margin they cost nothing."""


def draw_weights(distances: tf.Tensor, negatives: tf.Tensor, dimensions: tf.Tensor) -> tf.Tensor:
    """Returns the probabilities of each row's negatives, up to a factor for the row.

    The weight is 1/q(d), where q is the density of the distance of two random points on the unit sphere:
    ``log q(d) = (D - 2) log d + (D - 3)/2 log(1 - d^2/4)``, d at least CLOSEST, nothing beyond FARTHEST. A
    row whose negatives are all beyond draws evenly from them. Computed from logarithms relative to the
    largest of the row, since with D = 512 the weights span 200 powers of ten.

    Args:
        distances: [R, N] float64.
        negatives: [R, N] bool.
        dimensions: D, scalar.

    Returns:
        [R, N] float64 in [0, 1], the largest of a row 1; 0 outside ``negatives``.
    """
    dimensions = tf.cast(dimensions, tf.float64)
    within = tf.logical_and(negatives, distances <= FARTHEST)
    clipped = tf.clip_by_value(distances, CLOSEST, FARTHEST)
    log_density = (dimensions - 2.0) * tf.math.log(clipped)
    log_density += (dimensions - 3.0) / 2.0 * tf.math.log(1.0 - tf.square(clipped) / 4.0)
    lowest = tf.reduce_min(tf.where(within, log_density, float("inf")), axis=1, keepdims=True)
    weights = tf.exp(tf.where(within, lowest - log_density, -float("inf")))
    any_within = tf.reduce_any(within, axis=1, keepdims=True)
    return tf.where(any_within, weights, tf.cast(negatives, tf.float64))


def distance_weighted_weights(
    batch: Batch, distances: tf.Tensor, positives: tf.Tensor, negatives: tf.Tensor, seed: int
) -> tf.Tensor:
    """Draws one negative pair for every positive pair, with replacement.

    The draw for the positive pair (i, j) is a function of E_i, E_j, the distances of i's negatives and the
    seed (see ``content_random``). Negatives are lined up by distance, not by place in the batch, so neither
    the value nor the gradient depends on the order of the batch.

    Args:
        batch: the batch.
        distances: [B, B].
        positives: [B, B] bool, the positive pairs.
        negatives: [B, B] bool, the negative pairs.
        seed: of the draws.

    Returns:
        [B, B] weights, dtype of ``distances``: how often each negative pair was drawn. Cost: O(B^2 log B).
    """
    distances = tf.stop_gradient(distances)
    reach = tf.where(negatives, distances, tf.constant(float("inf"), distances.dtype))
    order = tf.argsort(reach, axis=1, stable=True)
    in_order = tf.cast(tf.gather(distances, order, batch_dims=1), tf.float64)
    negatives_in_order = tf.gather(negatives, order, batch_dims=1)
    weights = draw_weights(in_order, negatives_in_order, tf.shape(batch.embeddings)[1])
    cumulated = tf.cumsum(weights, axis=1)
    aims = pair_uniforms(tf.stop_gradient(batch.embeddings), seed) * cumulated[:, -1:]
    # Rounding may bring an aim up to the total, behind which the search finds no place.
    last = tf.reduce_sum(tf.cast(weights > 0.0, tf.int32), axis=1, keepdims=True) - 1
    places = tf.maximum(tf.minimum(count_not_above(cumulated, aims), last), 0)
    drawn = tf.logical_and(positives, last >= 0)
    return _count_draws(tf.gather(order, places, batch_dims=1), tf.cast(drawn, distances.dtype))


def _count_draws(columns: tf.Tensor, drawn: tf.Tensor) -> tf.Tensor:
    """Returns how often each column was drawn in its row.

    Args:
        columns: [B, B] int32.
        drawn: [B, B] float, 1 where the draw counts and 0 elsewhere.

    Returns:
        [B, B], dtype of ``drawn``.
    """
    flat = tf.reshape(drawn, [-1]), tf.reshape(cells(columns), [-1])
    return tf.reshape(tf.math.unsorted_segment_sum(*flat, tf.size(columns)), tf.shape(columns))
