"""The margin loss."""

from typing import Any, Literal, Optional, get_args

import tensorflow as tf

from profs_tf.losses.base import MetricLoss
from profs_tf.losses.batch import Check, EmbeddingBatch
from profs_tf.losses.distances import query_pairs, safe_sqrt, squared_distances
from profs_tf.losses.mining import distance_weighted_counts, hard_negative_weights
from profs_tf.losses.prototypes import NUM_CLASSES_CURE, class_index_checks, class_indices
from profs_tf.utils.checks import check_count, check_finite_above, check_finite_at_least, check_one_of

Mining = Literal["hard", "hard_per_query", "distance_weighted", "all"]


@tf.keras.utils.register_keras_serializable(package="profs_tf")
class MarginLoss(MetricLoss):
    """Margin loss.

    Wu, Manmatha, Smola, Krähenbühl: "Sampling Matters in Deep Embedding Learning", ICCV 2017.

        positive pair (i, j):  max(d_ij - boundary + margin, 0)
        negative pair (i, j):  max(boundary + margin - d_ij, 0)
        value:                 sum over all positive and the chosen negative pairs
                               / number of those terms that are not 0

    The value is 0 if every term is. ``boundary`` is trained with the embedder, unless it is fixed; with one
    boundary per class, a pair takes that of its query's class. Cost: O(B^2 D + B^2 log B).

    With ``mining="all"``, ``trainable_boundary=False`` and representatives as queries, this is the loss of
    equation 4.6 of the PROFS paper (near = boundary - margin, far = boundary + margin) as a mean over the
    violated constraints of the batch instead of the sum over those of the data set.

    Differs: no penalty on the boundary (the paper's nu); mining "hard" as in the PROFS paper, section 5.3.

    Args:
        boundary: > 0; initial distance that separates positive from negative pairs (the paper's beta).
        margin: >= 0; half the gap between positive and negative pairs (the paper's alpha).
        mining: The chosen negative pairs. "hard": the closest, as many as positive pairs
            (``hard_negative_weights``). "hard_per_query": as "hard", but each query takes its own closest
            negatives even if every image is a query. "distance_weighted": one drawn for each positive pair
            (``distance_weighted_counts``). "all": every negative pair.
        boundary_per_class: Whether each of ``num_classes`` classes has its own boundary. Labels must then be
            0 ... num_classes - 1.
        num_classes: Number of training classes; required by, and used with, ``boundary_per_class`` only.
        learning_rate: > 0; learning rate of the boundary in ProfsModel.
        seed: Seed of the draws of "distance_weighted".
        trainable_boundary: Whether the boundary is trained; if not, it keeps its initial value.
        representative_pairs: Whether pairs of two queries count; without a query mask all pairs do.
        name: Name of the loss.

    Attributes:
        boundary: Variable, float32, scalar or [num_classes].
    """

    takes_candidates = True

    def __init__(
        self,
        boundary: float = 1.2,
        margin: float = 0.2,
        mining: Mining = "hard",
        boundary_per_class: bool = False,
        num_classes: Optional[int] = None,
        learning_rate: float = 5e-4,
        seed: int = 0,
        trainable_boundary: bool = True,
        representative_pairs: bool = True,
        name: Optional[str] = None,
    ):
        super().__init__(name, representative_pairs)
        self.initial_boundary = check_finite_above("boundary", boundary, 0.0)
        self.margin = check_finite_at_least("margin", margin, 0.0)
        self.mining = check_one_of("mining", mining, get_args(Mining))
        self.boundary_per_class = boundary_per_class
        self._num_boundaries = (
            check_count("num_classes", num_classes, NUM_CLASSES_CURE) if boundary_per_class else None
        )
        self.num_classes = self._num_boundaries or num_classes
        self.trainable_boundary = trainable_boundary
        self.learning_rate = check_finite_above("learning_rate", learning_rate, 0.0)
        self.seed = seed
        shape = [] if self._num_boundaries is None else [self._num_boundaries]
        self.boundary = tf.Variable(
            tf.fill(shape, self.initial_boundary),
            trainable=trainable_boundary,
            name="boundary",
            dtype=tf.float32,
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments; ``boundary`` is the initial value, not the trained one."""
        return {**super().get_config(), "boundary": self.initial_boundary}

    def _label_checks(self, labels: tf.Tensor) -> tuple[Check, ...]:
        return () if self._num_boundaries is None else class_index_checks(labels, self._num_boundaries)

    def _query_boundaries(self, batch: EmbeddingBatch) -> tf.Tensor:
        """Returns the boundary of each row, [B, 1], or [] if all classes share one."""
        boundary = tf.cast(self.boundary, batch.embeddings.dtype)
        if self._num_boundaries is None:
            return boundary
        return tf.gather(boundary, class_indices(batch.labels, self._num_boundaries))[:, tf.newaxis]

    def _chosen_negatives(
        self, batch: EmbeddingBatch, distances: tf.Tensor, positives: tf.Tensor, negatives: tf.Tensor
    ) -> tf.Tensor:
        """Returns how often each negative pair counts, [B, N]."""
        if self.mining == "all":
            return tf.cast(negatives, distances.dtype)
        if self.mining in ("hard", "hard_per_query"):
            per_query = self.mining == "hard_per_query"
            return hard_negative_weights(batch, distances, positives, negatives, per_query)
        return distance_weighted_counts(batch, distances, positives, negatives, self.seed)

    def _batch_loss(self, batch: EmbeddingBatch) -> tf.Tensor:
        distances = safe_sqrt(squared_distances(batch.embeddings, batch.candidate_embeddings))
        positives, negatives = query_pairs(batch)
        chosen = self._chosen_negatives(batch, distances, positives, negatives)
        positives = tf.cast(positives, distances.dtype)
        boundary = self._query_boundaries(batch)
        terms = positives * tf.nn.relu(distances - boundary + self.margin)
        terms += chosen * tf.nn.relu(boundary + self.margin - distances)
        active = tf.where(terms > 0.0, positives + chosen, tf.zeros_like(terms))
        return tf.math.divide_no_nan(tf.reduce_sum(terms), tf.reduce_sum(active))
