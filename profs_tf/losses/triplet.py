"""The triplet loss."""

from typing import Optional

import tensorflow as tf

from profs_tf.losses.base import MetricLoss
from profs_tf.losses.batch import Batch
from profs_tf.losses.distances import mean_of, pick, query_pairs, squared_distances
from profs_tf.losses.sorted_rows import count_not_above
from profs_tf.utils.checks import check_finite_at_least, check_one_of


@tf.keras.utils.register_keras_serializable(package="profs_tf")
class TripletLoss(MetricLoss):
    """Triplet loss.

    Weinberger, Saul: "Distance Metric Learning for Large Margin Nearest Neighbor Classification", JMLR 2009;
    Schroff, Kalenichenko, Philbin: "FaceNet: A Unified Embedding for Face Recognition and Clustering", CVPR
    2015.

        triplet (i, p, n):  max(d_ip^2 - d_in^2 + margin, 0)
        value:              mean over all positive pairs (i, p) with a query i, each with one negative n

    Cost: O(B^2 D), with "semi_hard" O(B^2 (D + log B)); memory O(B^2).

    Differs: a positive pair without a semi-hard negative takes the farthest negative, where FaceNet leaves
    it out; tfa.losses.TripletSemiHardLoss does the same.

    Args:
        margin: >= 0; in units of squared distance.
        mining: which negative a pair takes. "hard": the closest to the query. "semi_hard": the closest to the
            query among those farther from it than the positive is; where there is none, the farthest.
        name: name of the loss.
    """

    def __init__(self, margin: float = 0.2, mining: str = "hard", name: Optional[str] = None):
        super().__init__(name)
        self.margin = check_finite_at_least("margin", margin, 0.0)
        self.mining = check_one_of("mining", mining, ("hard", "semi_hard"))

    def _batch_loss(self, batch: Batch) -> tf.Tensor:
        distances_sq = squared_distances(batch.embeddings)
        positives, negatives = query_pairs(batch)
        choose = _closest_negative if self.mining == "hard" else _semi_hard_negative
        has_negative = tf.logical_and(positives, tf.reduce_any(negatives, axis=1, keepdims=True))
        negative_sq = tf.where(has_negative, choose(distances_sq, negatives), tf.zeros_like(distances_sq))
        violation = tf.nn.relu(distances_sq - negative_sq + self.margin)
        return mean_of(tf.where(has_negative, violation, tf.zeros_like(violation)), positives)


def _beyond_reach(distances_sq: tf.Tensor, negatives: tf.Tensor) -> tf.Tensor:
    """Returns the squared distances of the negatives, infinity elsewhere."""
    return tf.where(negatives, distances_sq, tf.constant(float("inf"), distances_sq.dtype))


def _closest_negative(distances_sq: tf.Tensor, negatives: tf.Tensor) -> tf.Tensor:
    """Returns d_in^2 of each query's closest negative, [B, 1]; infinity where it has none."""
    return tf.reduce_min(_beyond_reach(distances_sq, negatives), axis=1, keepdims=True)


def _semi_hard_negative(distances_sq: tf.Tensor, negatives: tf.Tensor) -> tf.Tensor:
    """Returns d_in^2 of the semi-hard negative of every pair (i, p), [B, B].

    With a query's negatives in order, that is the first one farther than p; a comparison of all triplets
    would take O(B^3) memory.
    """
    reach = tf.stop_gradient(_beyond_reach(distances_sq, negatives))
    order = tf.argsort(reach, axis=1, stable=True)
    first_farther = count_not_above(tf.gather(reach, order, batch_dims=1), tf.stop_gradient(distances_sq))
    farthest = tf.reduce_sum(tf.cast(negatives, tf.int32), axis=1, keepdims=True) - 1
    place = tf.maximum(tf.minimum(first_farther, farthest), 0)
    return pick(distances_sq, tf.gather(order, place, batch_dims=1))
