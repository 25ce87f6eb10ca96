"""The multi-similarity loss."""

from typing import Optional

import tensorflow as tf

from profs_tf.losses.base import MetricLoss
from profs_tf.losses.batch import EmbeddingBatch
from profs_tf.losses.distances import pairs_with_a_query, same_class, similarity_matrix
from profs_tf.losses.ops import masked_log_sum_exp, masked_mean
from profs_tf.utils.checks import check_finite, check_finite_above, check_finite_at_least


@tf.keras.utils.register_keras_serializable(package="profs_tf")
class MultiSimilarityLoss(MetricLoss):
    """Multi-similarity loss.

    Wang, Han, Huang, Dong, Scott: "Multi-Similarity Loss with General Pair Weighting for Deep Metric
    Learning", CVPR 2019.

        negatives of i: those k with s_ik > min over positives of s_i  - eps
        positives of i: those k with s_ik < max over negatives of s_i  + eps
        value: mean over the images i of 1/alpha log(1 + sum_positives exp(-alpha (s_ik - base)))
                                       + 1/beta  log(1 + sum_negatives exp( beta  (s_ik - base)))

    The mean is over all images that have a pair; images for which mining leaves no pair contribute 0. With a
    query mask, pairs of two non-query images are left out of the mining and of the sums: a non-query image
    keeps only its pairs with queries (PROFS paper, section 5.3). Cost: O(B^2 D).

    Args:
        alpha: > 0; scale of the positive similarities.
        beta: > 0; scale of the negative similarities.
        base: The similarity that positives should exceed and negatives should not (the paper's lambda).
        eps: >= 0; tolerance of the mining.
        representative_pairs: Whether pairs of two queries count; without a query mask all pairs do.
        name: Name of the loss.
    """

    takes_candidates = True

    def __init__(
        self,
        alpha: float = 2.0,
        beta: float = 50.0,
        base: float = 0.5,
        eps: float = 0.1,
        representative_pairs: bool = True,
        name: Optional[str] = None,
    ):
        super().__init__(name, representative_pairs)
        self.alpha = check_finite_above("alpha", alpha, 0.0)
        self.beta = check_finite_above("beta", beta, 0.0)
        self.base = check_finite("base", base)
        self.eps = check_finite_at_least("eps", eps, 0.0)

    def _mined(
        self, similarities: tf.Tensor, positives: tf.Tensor, negatives: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the mined parts of both masks [B, N]; in rows where one mask is empty, both parts are."""
        infinity = tf.constant(float("inf"), similarities.dtype)
        lowest = tf.reduce_min(tf.where(positives, similarities, infinity), axis=1, keepdims=True)
        highest = tf.reduce_max(tf.where(negatives, similarities, -infinity), axis=1, keepdims=True)
        hard_positives = tf.logical_and(positives, similarities < highest + self.eps)
        return hard_positives, tf.logical_and(negatives, similarities > lowest - self.eps)

    def _batch_loss(self, batch: EmbeddingBatch) -> tf.Tensor:
        similarities = similarity_matrix(batch.embeddings, batch.candidate_embeddings)
        pairs, same = pairs_with_a_query(batch), same_class(batch.labels, batch.candidate_labels)
        positives, negatives = self._mined(
            similarities, tf.logical_and(pairs, same), tf.logical_and(pairs, tf.logical_not(same))
        )
        above = similarities - self.base
        pull = tf.nn.softplus(masked_log_sum_exp(-self.alpha * above, positives)) / self.alpha
        push = tf.nn.softplus(masked_log_sum_exp(self.beta * above, negatives)) / self.beta
        return masked_mean(pull + push, tf.reduce_any(pairs, axis=1))
