"""The triplet loss."""

from typing import Literal, Optional, get_args

import tensorflow as tf

from profs_tf.losses.base import MetricLoss
from profs_tf.losses.batch import EmbeddingBatch
from profs_tf.losses.distances import query_pairs, squared_distances
from profs_tf.losses.ops import gather_in_rows, masked_mean, searchsorted_right
from profs_tf.utils.checks import check_finite_at_least, check_one_of

Mining = Literal["hard", "semi_hard"]


@tf.keras.utils.register_keras_serializable(package="profs_tf")
class TripletLoss(MetricLoss):
    """Triplet loss.

    Weinberger, Saul: "Distance Metric Learning for Large Margin Nearest Neighbor Classification", JMLR 2009;
    Schroff, Kalenichenko, Philbin: "FaceNet: A Unified Embedding for Face Recognition and Clustering", CVPR
    2015.

        triplet (i, p, n):  max(d_ip^2 - d_in^2 + margin, 0)
        value:              mean over all positive pairs (i, p) with a query i, each with one negative n

    Cost: O(B^2 D), with "semi_hard" O(B^2 (D + log B)); memory O(B^2).

    Differs: a positive pair without a semi-hard negative takes the farthest negative, whereas FaceNet leaves
    it out; tfa.losses.TripletSemiHardLoss does the same.

    Args:
        margin: >= 0; in units of squared distance.
        mining: The negative of a positive pair. "hard": the closest to the query. "semi_hard": the closest to
            the query that is farther from it than the positive; if there is none, the farthest.
        representative_pairs: Whether pairs of two queries count; without a query mask all pairs do.
        name: Name of the loss.
    """

    takes_candidates = True

    def __init__(
        self,
        margin: float = 0.2,
        mining: Mining = "hard",
        representative_pairs: bool = True,
        name: Optional[str] = None,
    ):
        super().__init__(name, representative_pairs)
        self.margin = check_finite_at_least("margin", margin, 0.0)
        self.mining = check_one_of("mining", mining, get_args(Mining))

    def _batch_loss(self, batch: EmbeddingBatch) -> tf.Tensor:
        distances_sq = squared_distances(batch.embeddings, batch.candidate_embeddings)
        positives, negatives = query_pairs(batch)
        mine = _closest_negative if self.mining == "hard" else _semi_hard_negative
        has_negative = tf.logical_and(positives, tf.reduce_any(negatives, axis=1, keepdims=True))
        negative_sq = tf.where(has_negative, mine(distances_sq, negatives), tf.zeros_like(distances_sq))
        violation = tf.nn.relu(distances_sq - negative_sq + self.margin)
        return masked_mean(tf.where(has_negative, violation, tf.zeros_like(violation)), positives)


def _of_negatives(distances_sq: tf.Tensor, negatives: tf.Tensor) -> tf.Tensor:
    """Returns the squared distances of the negative pairs, infinity elsewhere."""
    return tf.where(negatives, distances_sq, tf.constant(float("inf"), distances_sq.dtype))


def _closest_negative(distances_sq: tf.Tensor, negatives: tf.Tensor) -> tf.Tensor:
    """Returns d_in^2 of each query's closest negative, [B, 1]; infinity if it has none."""
    return tf.reduce_min(_of_negatives(distances_sq, negatives), axis=1, keepdims=True)


def _semi_hard_negative(distances_sq: tf.Tensor, negatives: tf.Tensor) -> tf.Tensor:
    """Returns d_in^2 of the semi-hard negative of every pair (i, p), [B, N].

    It is the first one farther than p among the query's negatives, sorted by distance. Comparing all triplets
    would take O(B N^2) memory.
    """
    negatives_sq = tf.stop_gradient(_of_negatives(distances_sq, negatives))
    order = tf.argsort(negatives_sq, axis=1, stable=True)
    sorted_sq = tf.gather(negatives_sq, order, batch_dims=1)
    first_farther = searchsorted_right(sorted_sq, tf.stop_gradient(distances_sq))
    farthest = tf.reduce_sum(tf.cast(negatives, tf.int32), axis=1, keepdims=True) - 1
    rank = tf.maximum(tf.minimum(first_farther, farthest), 0)
    return gather_in_rows(distances_sq, tf.gather(order, rank, batch_dims=1))
