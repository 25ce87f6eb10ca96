"""The lifted structured loss."""

from typing import Optional

import tensorflow as tf

from profs_tf.losses.base import MetricLoss
from profs_tf.losses.batch import EmbeddingBatch
from profs_tf.losses.distances import pairs_with_a_query, safe_sqrt, same_class, squared_distances
from profs_tf.losses.ops import log_add_exp, masked_log_sum_exp, masked_mean
from profs_tf.utils.checks import check_finite_at_least


@tf.keras.utils.register_keras_serializable(package="profs_tf")
class LiftedStructureLoss(MetricLoss):
    """Lifted structured loss.

    Oh Song, Xiang, Jegelka, Savarese: "Deep Metric Learning via Lifted Structured Feature Embedding", CVPR
    2016, the smooth upper bound of its loss.

        J_ij = log(sum_{k: y_k != y_i} exp(margin - d_ik) + sum_{l: y_l != y_j} exp(margin - d_jl)) + d_ij
        value: mean of max(0, J_ij)^2 / 2 over the unordered positive pairs {i, j} of which i or j is a query

    With a query mask, pairs of two non-query images are left out of the sums as well: a non-query image keeps
    only its pairs with queries (PROFS paper, section 5.3). Cost: O(B^2 D).

    Args:
        margin: >= 0; the distance that a negative pair should exceed.
        representative_pairs: Whether pairs of two queries count; without a query mask all pairs do.
        name: Name of the loss.
    """

    normalized_embeddings = False
    takes_candidates = True

    def __init__(self, margin: float = 1.0, representative_pairs: bool = True, name: Optional[str] = None):
        super().__init__(name, representative_pairs)
        self.margin = check_finite_at_least("margin", margin, 0.0)

    def _batch_loss(self, batch: EmbeddingBatch) -> tf.Tensor:
        distances = safe_sqrt(squared_distances(batch.embeddings, batch.candidate_embeddings))
        pairs, same = pairs_with_a_query(batch), same_class(batch.labels, batch.candidate_labels)
        negatives = tf.logical_and(pairs, tf.logical_not(same))
        push = of_second = masked_log_sum_exp(self.margin - distances, negatives)
        if batch.candidates is not None:
            of_second = masked_log_sum_exp(self.margin - tf.transpose(distances), tf.transpose(negatives))
        structure = log_add_exp(push[:, tf.newaxis], of_second[tf.newaxis, :]) + distances
        # Within a batch every unordered pair is in the matrix twice, which does not change the mean.
        return masked_mean(tf.square(tf.nn.relu(structure)) / 2.0, tf.logical_and(pairs, same))
