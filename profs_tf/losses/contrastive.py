"""The contrastive loss."""

from typing import Literal, Optional, get_args

import tensorflow as tf

from profs_tf.losses.base import MetricLoss
from profs_tf.losses.batch import EmbeddingBatch
from profs_tf.losses.distances import query_pairs, safe_sqrt, squared_distances
from profs_tf.losses.mining import hard_negative_weights
from profs_tf.utils.checks import check_finite_above, check_one_of

Mining = Literal["hard", "hard_per_query", "all"]


@tf.keras.utils.register_keras_serializable(package="profs_tf")
class ContrastiveLoss(MetricLoss):
    """Contrastive loss.

    Hadsell, Chopra, LeCun: "Dimensionality Reduction by Learning an Invariant Mapping", CVPR 2006.

        positive pair (i, j):  d_ij^2
        negative pair (i, j):  max(margin - d_ij, 0)^2
        value:                 mean over all positive and the chosen negative pairs

    Pairs (i, j) have a query i, i != j, and are positive if ``y_i == y_j``. Cost: O(B^2 D + B^2 log B).

    Differs: a pair's label follows from the two class labels, equal meaning "same"; negatives are mined
    rather than all used (after Yuan et al., ICCV 2017, as in the PROFS paper, section 5.3); no factor 1/2.

    Args:
        margin: > 0; the distance beyond which a negative pair costs 0. Unit vectors are at most 2 apart.
        mining: The chosen negative pairs. "hard": the closest, as many as positive pairs
            (``hard_negative_weights``). "hard_per_query": as "hard", but each query takes its own closest
            negatives even if every image is a query. "all": every negative pair closer than the margin.
        representative_pairs: Whether pairs of two queries count; without a query mask all pairs do.
        name: Name of the loss.
    """

    takes_candidates = True

    def __init__(
        self,
        margin: float = 1.0,
        mining: Mining = "hard",
        representative_pairs: bool = True,
        name: Optional[str] = None,
    ):
        super().__init__(name, representative_pairs)
        self.margin = check_finite_above("margin", margin, 0.0)
        self.mining = check_one_of("mining", mining, get_args(Mining))

    def _batch_loss(self, batch: EmbeddingBatch) -> tf.Tensor:
        distances_sq = squared_distances(batch.embeddings, batch.candidate_embeddings)
        positives, negatives = query_pairs(batch)
        violation = tf.nn.relu(self.margin - safe_sqrt(distances_sq))
        if self.mining == "all":
            chosen = tf.cast(tf.logical_and(negatives, violation > 0.0), distances_sq.dtype)
        else:
            per_query = self.mining == "hard_per_query"
            chosen = hard_negative_weights(batch, distances_sq, positives, negatives, per_query)
        positives = tf.cast(positives, distances_sq.dtype)
        total = tf.reduce_sum(positives * distances_sq) + tf.reduce_sum(chosen * tf.square(violation))
        return tf.math.divide_no_nan(total, tf.reduce_sum(positives) + tf.reduce_sum(chosen))
