"""The N-pair loss."""

from typing import Optional

import tensorflow as tf

from profs_tf.losses.base import MetricLoss
from profs_tf.losses.batch import Batch
from profs_tf.losses.distances import mean_of, query_pairs, similarity_matrix, tuple_negatives
from profs_tf.losses.ops import masked_log_sum_exp
from profs_tf.utils.checks import check_finite_at_least


@tf.keras.utils.register_keras_serializable(package="profs_tf")
class NPairLoss(MetricLoss):
    """Multi-class N-pair loss.

    Sohn: "Improved Deep Metric Learning with Multi-class N-pair Loss Objective", NIPS 2016.

        tuple (i, j):  log(1 + sum_k exp(s_ik - s_ij))
        value:         mean over all positive pairs (i, j) with a query i  +  l2_weight * mean_i ||E_i||^2

    k are the images of other classes that are no queries; where every image is a query, all of other classes.
    With one query and one other image per class this is the paper's batch: so its baseline needs a query mask
    with one fresh query for each class, and no change for PROFS. Cost: O(B^2 D).

    Differs: more than one positive for a query is allowed. The norm is that of all images of the batch, and
    counts without any pair too.

    Args:
        l2_weight: >= 0; weight of the mean squared norm, which keeps the unbounded similarities in place. The
            default is 0.25 * 0.002.
        name: name of the loss.
    """

    normalized_embeddings = False

    def __init__(self, l2_weight: float = 0.0005, name: Optional[str] = None):
        super().__init__(name)
        self.l2_weight = check_finite_at_least("l2_weight", l2_weight, 0.0)

    def _batch_loss(self, batch: Batch) -> tf.Tensor:
        return n_pair_value(batch, similarity_matrix(batch.embeddings), self.l2_weight)


def n_pair_value(batch: Batch, similarities: tf.Tensor, l2_weight: float) -> tf.Tensor:
    """Returns the N-pair loss of a batch with its similarities s_ij [B, B]; see NPairLoss."""
    positives, _ = query_pairs(batch)
    others = masked_log_sum_exp(similarities, tuple_negatives(batch))
    tuples = mean_of(tf.nn.softplus(others[:, tf.newaxis] - similarities), positives)
    norms_sq = tf.reduce_sum(tf.square(batch.embeddings), axis=1)
    return tuples + l2_weight * mean_of(norms_sq, tf.ones_like(norms_sq))
