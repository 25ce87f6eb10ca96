"""The N-pair loss."""

from typing import Optional

import tensorflow as tf

from profs_tf.losses.base import MetricLoss
from profs_tf.losses.batch import EmbeddingBatch
from profs_tf.losses.distances import query_pairs, similarity_matrix, tuple_negatives
from profs_tf.losses.ops import masked_log_sum_exp, masked_mean
from profs_tf.utils.checks import check_finite_at_least


@tf.keras.utils.register_keras_serializable(package="profs_tf")
class NPairLoss(MetricLoss):
    """Multi-class N-pair loss.

    Sohn: "Improved Deep Metric Learning with Multi-class N-pair Loss Objective", NIPS 2016.

        tuple (i, j):  log(1 + sum_k exp(s_ik - s_ij))
        value:         mean over all positive pairs (i, j) with a query i
                       + l2_weight / 4 * (mean_i ||E_i||^2 + mean_j ||E_j||^2)

    k are the non-query images of other classes; if every image is a query, all images of other classes. The
    second part averages the squared norms of the queries i that have a positive, and of the images j that are
    the positive of a query, as TensorFlow's ``npairs_loss`` does. The paper's batch has one query and one
    other image per class. Hence the baseline needs a query mask with one fresh query per class, and PROFS
    needs no change (PROFS paper, section 5.3). Cost: O(B^2 D).

    Differs: a query may have several positives.

    Args:
        l2_weight: >= 0; weight of the squared norms, which keep the unbounded similarities in check.
        name: Name of the loss.
    """

    normalized_embeddings = False
    baseline_queries = "representatives"

    def __init__(self, l2_weight: float = 0.002, name: Optional[str] = None):
        super().__init__(name)
        self.l2_weight = check_finite_at_least("l2_weight", l2_weight, 0.0)

    def _batch_loss(self, batch: EmbeddingBatch) -> tf.Tensor:
        return n_pair_value(batch, similarity_matrix(batch.embeddings), self.l2_weight)


def n_pair_value(batch: EmbeddingBatch, similarities: tf.Tensor, l2_weight: float) -> tf.Tensor:
    """Returns the N-pair loss of a batch with its similarities s_ij [B, B]; see NPairLoss."""
    positives, _ = query_pairs(batch)
    negative_terms = masked_log_sum_exp(similarities, tuple_negatives(batch))
    tuples = masked_mean(tf.nn.softplus(negative_terms[:, tf.newaxis] - similarities), positives)
    norms_sq = tf.reduce_sum(tf.square(batch.embeddings), axis=1)
    norms_of_queries = masked_mean(norms_sq, tf.reduce_any(positives, axis=1))
    norms_of_positives = masked_mean(norms_sq, tf.reduce_any(positives, axis=0))
    return tuples + 0.25 * l2_weight * (norms_of_queries + norms_of_positives)
