"""Mining of negative pairs, one for each positive pair: the closest ones, or drawn by distance.

Shapes: B images in the batch, N candidates, D embedding dimensions; R rows of N numbers. Matrices are [B, N];
the row is the query. The choice is returned as weights, how often each pair counts. No gradient passes
through it.
"""

import tensorflow as tf

from profs_tf.losses.batch import EmbeddingBatch
from profs_tf.losses.content_random import pair_uniforms
from profs_tf.losses.ops import flat_indices, kth_smallest, searchsorted_right

CUTOFF = 0.5
"""Distance-weighted mining treats closer negatives as at this distance: their gradients are mostly noise."""
NONZERO_LOSS_CUTOFF = 1.4
"""Distance-weighted mining draws no negatives beyond: at the default boundary and margin they cost 0."""


def closest_weights(distances: tf.Tensor, candidates: tf.Tensor, counts: tf.Tensor) -> tf.Tensor:
    """Chooses the ``counts`` closest candidates of each row.

    Candidates that tie for the last ranks share them evenly: three that tie for two ranks weigh 2/3 each.
    Hence the choice does not depend on the order of the columns.

    Args:
        distances: [R, N], or squared ones.
        candidates: [R, N] bool.
        counts: [R] int32, how many to choose; all candidates if there are fewer.

    Returns:
        [R, N] weights in [0, 1], dtype of ``distances``; the sum of row r is min(counts[r], candidates in r).
        Cost: that of `kth_smallest`.
    """
    infinity = tf.constant(float("inf"), distances.dtype)
    num_chosen = tf.minimum(counts, _count(candidates))[:, tf.newaxis]
    threshold = kth_smallest(tf.where(candidates, distances, infinity), num_chosen)
    closer = tf.logical_and(candidates, distances < threshold)
    tied = tf.logical_and(candidates, tf.equal(distances, threshold))
    remaining = tf.cast(num_chosen - _count(closer)[:, tf.newaxis], distances.dtype)
    share = tf.math.divide_no_nan(remaining, tf.cast(_count(tied), distances.dtype)[:, tf.newaxis])
    return tf.cast(closer, distances.dtype) + tf.where(tied, share, tf.zeros_like(distances))


def hard_negative_weights(
    batch: EmbeddingBatch,
    distances: tf.Tensor,
    positives: tf.Tensor,
    negatives: tf.Tensor,
    per_query: bool = False,
) -> tf.Tensor:
    """Chooses the closest negative pairs, as many as there are positive pairs.

    If every image is a query, these are the closest pairs of the whole batch. Pairs are ordered: (i, j) and
    (j, i) are two. Since positives and negatives both occur twice, the choice is that of unordered pairs.
    With a query mask (PROFS), each query takes as many of its own closest negatives as it has positives.

    Args:
        batch: The batch.
        distances: [B, N], or squared ones.
        positives: [B, N] bool, the positive pairs.
        negatives: [B, N] bool, the negative pairs.
        per_query: Whether each query takes its own closest negatives even if every image is a query.

    Returns:
        [B, N] weights in [0, 1], dtype of ``distances``. Cost: O(B N log N).
    """
    distances = tf.stop_gradient(distances)

    def of_the_batch() -> tf.Tensor:
        one_row = [tf.reshape(matrix, [1, -1]) for matrix in (distances, negatives)]
        counts = tf.reduce_sum(_count(positives))[tf.newaxis]
        chosen = closest_weights(one_row[0], one_row[1], counts)
        return tf.reshape(chosen, tf.shape(distances))

    def of_each_query() -> tf.Tensor:
        return closest_weights(distances, negatives, counts=_count(positives))

    if per_query:
        return of_each_query()
    return tf.cond(batch.every_image_is_query, of_the_batch, of_each_query)


def sampling_weights(distances: tf.Tensor, negatives: tf.Tensor, dimensions: tf.Tensor) -> tf.Tensor:
    """Returns the unnormalized probabilities of each row's negatives in distance-weighted mining.

    Wu, Manmatha, Smola, Krähenbühl: "Sampling Matters in Deep Embedding Learning", ICCV 2017. The weight is
    1/q(d), where q is the density of the distance of two random points on the unit sphere:
    ``log q(d) = (D - 2) log d + (D - 3)/2 log(1 - d^2/4)``, with d at least CUTOFF, and 0 beyond
    NONZERO_LOSS_CUTOFF. If all negatives of a row are beyond, all have weight 1. Computed from logarithms
    relative to the row's largest: for D = 512 the weights span 200 orders of magnitude.

    Args:
        distances: [R, N] float64.
        negatives: [R, N] bool.
        dimensions: D, scalar.

    Returns:
        [R, N] float64 in [0, 1], 1 for the largest of a row and 0 outside ``negatives``.
    """
    dimensions = tf.cast(dimensions, tf.float64)
    within = tf.logical_and(negatives, distances <= NONZERO_LOSS_CUTOFF)
    clipped = tf.clip_by_value(distances, CUTOFF, NONZERO_LOSS_CUTOFF)
    log_density = (dimensions - 2.0) * tf.math.log(clipped)
    log_density += (dimensions - 3.0) / 2.0 * tf.math.log(1.0 - tf.square(clipped) / 4.0)
    lowest = tf.reduce_min(tf.where(within, log_density, float("inf")), axis=1, keepdims=True)
    weights = tf.exp(tf.where(within, lowest - log_density, -float("inf")))
    any_within = tf.reduce_any(within, axis=1, keepdims=True)
    return tf.where(any_within, weights, tf.cast(negatives, tf.float64))


def distance_weighted_counts(
    batch: EmbeddingBatch, distances: tf.Tensor, positives: tf.Tensor, negatives: tf.Tensor, seed: int
) -> tf.Tensor:
    """Draws one negative pair for each positive pair, with replacement, by ``sampling_weights``.

    The draw for the positive pair (i, j) is a function of E_i, E_j, the distances of i's negatives and the
    seed (see ``content_random``). Negatives are ordered by distance, not by their position in the batch, so
    neither value nor gradient depends on the order of the batch.

    Args:
        batch: The batch.
        distances: [B, N].
        positives: [B, N] bool, the positive pairs.
        negatives: [B, N] bool, the negative pairs.
        seed: Seed of the draws.

    Returns:
        [B, N] weights, dtype of ``distances``: how often each negative pair was drawn. Cost: O(B N log N).
    """
    distances = tf.stop_gradient(distances)
    of_negatives = tf.where(negatives, distances, tf.constant(float("inf"), distances.dtype))
    order = tf.argsort(of_negatives, axis=1, stable=True)
    sorted_distances = tf.cast(tf.gather(distances, order, batch_dims=1), tf.float64)
    sorted_negatives = tf.gather(negatives, order, batch_dims=1)
    weights = sampling_weights(sorted_distances, sorted_negatives, tf.shape(batch.embeddings)[1])
    cumulative = tf.cumsum(weights, axis=1)
    uniforms = pair_uniforms(tf.stop_gradient(batch.embeddings), seed, batch.candidate_embeddings)
    thresholds = uniforms * cumulative[:, -1:]
    # Rounding may raise a threshold to the total, beyond which the search finds no negative.
    last = tf.reduce_sum(tf.cast(weights > 0.0, tf.int32), axis=1, keepdims=True) - 1
    ranks = tf.maximum(tf.minimum(searchsorted_right(cumulative, thresholds), last), 0)
    is_drawn = tf.logical_and(positives, last >= 0)
    return _count_draws(tf.gather(order, ranks, batch_dims=1), tf.cast(is_drawn, distances.dtype))


def _count_draws(columns: tf.Tensor, is_drawn: tf.Tensor) -> tf.Tensor:
    """Returns how often each column was drawn in its row.

    Args:
        columns: [B, N] int32.
        is_drawn: [B, N] float, 1 where the draw counts and 0 elsewhere.

    Returns:
        [B, N], dtype of ``is_drawn``.
    """
    flat = tf.reshape(is_drawn, [-1]), tf.reshape(flat_indices(columns), [-1])
    return tf.reshape(tf.math.unsorted_segment_sum(*flat, tf.size(columns)), tf.shape(columns))


def _count(mask: tf.Tensor) -> tf.Tensor:
    """Returns the number of True entries in each row, [R] int32 (a float32 would stop counting at 2^24)."""
    return tf.reduce_sum(tf.cast(mask, tf.int32), axis=1)
