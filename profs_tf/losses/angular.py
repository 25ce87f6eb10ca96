"""The angular loss."""

import math
from typing import Optional

import tensorflow as tf

from profs_tf.losses.base import MetricLoss
from profs_tf.losses.batch import EmbeddingBatch
from profs_tf.losses.distances import query_pairs, similarity_matrix, tuple_negatives
from profs_tf.losses.n_pair import n_pair_value
from profs_tf.losses.ops import masked_mean, paired_log_sum_exp
from profs_tf.utils.checks import check_finite_at_least


@tf.keras.utils.register_keras_serializable(package="profs_tf")
class AngularLoss(MetricLoss):
    """Angular loss.

    Wang, Zhou, Wen, Liu, Lin: "Deep Metric Learning with Angular Loss", ICCV 2017.

        f_ijk = 4 tan^2(angle) (E_i + E_j) . E_k - 2 (1 + tan^2(angle)) s_ij
        value: mean over all positive pairs (i, j) with a query i of log(1 + sum_k exp(f_ijk))
               + n_pair_weight * N-pair loss

    k are the non-query images of other classes; if every image is a query, all images of other classes.
    Cost: time O(B^2 (D + P)), where P is the largest number of positives of a query; memory O(B^2): the
    exponent is a sum of s_ik and s_jk, so the triplets are never held all at once.

    While all embeddings are alike, s = c for every pair and the exponent is (6 tan^2(angle) - 2) c. Above 30
    degrees the loss then first shrinks the embeddings towards 0, where its gradient vanishes, and a network
    with random weights recovers slowly. Train such a network with ``angle=30`` or normalized embeddings.

    Args:
        angle: Upper bound of the angle at the negative, in degrees, between 0 and 90.
        n_pair_weight: >= 0; weight of the N-pair loss of the same batch (the paper's lambda).
        l2_weight: >= 0; weight of the squared norms within that N-pair loss.
        name: Name of the loss.
    """

    normalized_embeddings = False
    baseline_queries = "representatives"

    def __init__(
        self,
        angle: float = 45.0,
        n_pair_weight: float = 0.0,
        l2_weight: float = 0.002,
        name: Optional[str] = None,
    ):
        super().__init__(name)
        if not 0.0 < angle < 90.0:
            raise ValueError(f"`angle` must be between 0 and 90 degrees, got {angle}.")
        self.angle = float(angle)
        self.n_pair_weight = check_finite_at_least("n_pair_weight", n_pair_weight, 0.0)
        self.l2_weight = check_finite_at_least("l2_weight", l2_weight, 0.0)

    def _batch_loss(self, batch: EmbeddingBatch) -> tf.Tensor:
        similarities = similarity_matrix(batch.embeddings)
        positives, _ = query_pairs(batch)
        negatives = tuple_negatives(batch)
        tan_sq = math.tan(math.radians(self.angle)) ** 2
        negative_terms = paired_log_sum_exp(4.0 * tan_sq * similarities, negatives, positives)
        has_terms = tf.logical_and(positives, tf.reduce_any(negatives, axis=1, keepdims=True))
        terms = tf.nn.softplus(negative_terms - 2.0 * (1.0 + tan_sq) * similarities)
        value = masked_mean(tf.where(has_terms, terms, tf.zeros_like(terms)), positives)
        if self.n_pair_weight:
            value += self.n_pair_weight * n_pair_value(batch, similarities, self.l2_weight)
        return value
