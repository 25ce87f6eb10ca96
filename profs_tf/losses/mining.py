"""Hard mining: which negative pairs count, the closest, as many as there are positive pairs.

Shapes: B images in the batch. Matrices are [B, B]; the row is the query.
The choice is returned as weights, how often each pair counts. No gradient passes through it.
"""

import tensorflow as tf

from profs_tf.losses.batch import Batch


def closest_weights(distances: tf.Tensor, candidates: tf.Tensor, counts: tf.Tensor) -> tf.Tensor:
    """Chooses in each row the ``counts`` closest candidates.

    Where the last places go to candidates of equal distance, these share them evenly: three tied for two
    places weigh 2/3 each. So the choice does not depend on the order of the columns.

    Args:
        distances: [R, N], any monotonous function of the distance.
        candidates: [R, N] bool.
        counts: [R] int32, how many to choose; all candidates where they are fewer.

    Returns:
        [R, N] weights in [0, 1], dtype of ``distances``; the sum of row r is min(counts[r], candidates in r).
        Cost: O(R N log N).
    """
    infinity = tf.constant(float("inf"), distances.dtype)
    in_order = tf.sort(tf.where(candidates, distances, infinity), axis=1)
    places = tf.minimum(counts, _count(candidates))[:, tf.newaxis]
    is_last_place = tf.range(tf.shape(distances)[1])[tf.newaxis, :] == places - 1
    threshold = tf.reduce_max(tf.where(is_last_place, in_order, -infinity), axis=1, keepdims=True)
    closer = tf.logical_and(candidates, distances < threshold)
    tied = tf.logical_and(candidates, tf.equal(distances, threshold))
    left = tf.cast(places - _count(closer)[:, tf.newaxis], distances.dtype)
    share = tf.math.divide_no_nan(left, tf.cast(_count(tied), distances.dtype)[:, tf.newaxis])
    return tf.cast(closer, distances.dtype) + tf.where(tied, share, tf.zeros_like(distances))


def hard_negative_weights(
    batch: Batch, distances: tf.Tensor, positives: tf.Tensor, negatives: tf.Tensor
) -> tf.Tensor:
    """Chooses the closest negative pairs, as many as there are positive pairs.

    Where every image is a query: the closest of the whole batch. Pairs are ordered, (i, j) and (j, i) are
    two; since positives and negatives both come twice, the choice is that of unordered pairs. With a query
    mask (PROFS): each query takes as many of its own closest negatives as it has positives.

    Args:
        batch: the batch.
        distances: [B, B], or squared ones.
        positives: [B, B] bool, the positive pairs.
        negatives: [B, B] bool, the negative pairs.

    Returns:
        [B, B] weights in [0, 1], dtype of ``distances``. Cost: O(B^2 log B).
    """
    distances = tf.stop_gradient(distances)

    def of_the_batch() -> tf.Tensor:
        one_row = [tf.reshape(matrix, [1, -1]) for matrix in (distances, negatives)]
        counts = tf.reduce_sum(_count(positives))[tf.newaxis]
        chosen = closest_weights(one_row[0], one_row[1], counts)
        return tf.reshape(chosen, tf.shape(distances))

    def of_each_query() -> tf.Tensor:
        return closest_weights(distances, negatives, counts=_count(positives))

    return tf.cond(batch.every_image_is_query, of_the_batch, of_each_query)


def _count(mask: tf.Tensor) -> tf.Tensor:
    """Returns how many are True in each row, [R] int32 (a float32 would stop counting at 2^24)."""
    return tf.reduce_sum(tf.cast(mask, tf.int32), axis=1)
