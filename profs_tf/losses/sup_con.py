"""The supervised contrastive loss."""

from typing import Optional

import tensorflow as tf

from profs_tf.losses.base import MetricLoss
from profs_tf.losses.batch import EmbeddingBatch
from profs_tf.losses.distances import query_pairs, similarity_matrix
from profs_tf.losses.ops import masked_log_sum_exp, masked_mean
from profs_tf.utils.checks import check_finite_above


@tf.keras.utils.register_keras_serializable(package="profs_tf")
class SupConLoss(MetricLoss):
    """Supervised contrastive loss.

    Khosla, Teterwak, Wang, Sarna, Tian, Isola, Maschinot, Liu, Krishnan: "Supervised Contrastive Learning",
    NeurIPS 2020, equation 2 (L_out, with the sum over positives outside the logarithm).

        value: mean over the queries i with a positive of the mean over their positives j of
               -log(exp(s_ij / temperature) / sum_{k != i} exp(s_ik / temperature))

    k runs over all other images of the batch. Queries without a positive are left out of the mean. In PROFS
    the queries are the representatives. *Differs:* the paper sums over the images, and each image comes in
    two augmentations, which are positives of each other; batches here hold several images of a class. Cost:
    O(B^2 D).

    Args:
        temperature: > 0; the paper's tau.
        representative_pairs: Whether pairs of two queries count; without a query mask all pairs do.
        name: Name of the loss.
    """

    takes_candidates = True

    def __init__(
        self, temperature: float = 0.1, representative_pairs: bool = True, name: Optional[str] = None
    ):
        super().__init__(name, representative_pairs)
        self.temperature = check_finite_above("temperature", temperature, 0.0)

    def _batch_loss(self, batch: EmbeddingBatch) -> tf.Tensor:
        logits = similarity_matrix(batch.embeddings, batch.candidate_embeddings) / self.temperature
        positives, negatives = query_pairs(batch)
        log_sums = masked_log_sum_exp(logits, tf.logical_or(positives, negatives))
        counts = tf.reduce_sum(tf.cast(positives, logits.dtype), axis=1)
        sums = tf.reduce_sum(tf.where(positives, logits, tf.zeros_like(logits)), axis=1)
        return masked_mean(log_sums - tf.math.divide_no_nan(sums, counts), counts > 0.0)
