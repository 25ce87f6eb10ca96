"""The cross-batch memory: the queries of a batch are also compared with the embeddings of earlier batches.

Shapes: B images in the batch, M entries of the memory, D embedding dimensions.
"""

from collections.abc import Mapping
from typing import Any, Optional

import tensorflow as tf

from profs_tf.losses import registry
from profs_tf.losses.base import MetricLoss
from profs_tf.losses.batch import Candidates, Check, EmbeddingBatch
from profs_tf.losses.prototypes import EMBEDDING_DIM_CURE, check_embedding_dim
from profs_tf.utils.checks import check_count, check_finite_above

_TRAINING_ONLY = (
    "CrossBatchMemory trains by `training_step(labels, embeddings, is_query)`, as ProfsModel calls it. A "
    "call is an evaluation without the memory, and has no gradient: a stock Keras model, which does not "
    "tell its loss whether it trains, cannot train with it."
)


@tf.keras.utils.register_keras_serializable(package="profs_tf")
class CrossBatchMemory(MetricLoss):
    """A pair loss whose queries also meet the embeddings of earlier batches (XBM).

    Wang, Zhang, Huang, Scott: "Cross-Batch Memory for Embedding Learning", CVPR 2020.

        value: loss(queries x batch) + weight * loss(queries x memory)

    In step t the memory holds the embeddings and labels of the last M images of the steps before t, no more
    and no fewer, so that runs are reproducible and resume bit for bit; then the batch replaces the oldest
    entries. Every image enters the memory, but only the batch's queries (with PROFS the representatives) are
    compared with it. An entry of the query's class is a positive, also if it is the query's own earlier
    embedding, as in the authors' code; any other is a negative. Mining, averages and trained boundaries are
    the wrapped loss's own, over the [B, M] pairs. No gradient passes into the memory. A batch with a NaN or
    infinite embedding does not enter it: training that goes on with repaired weights finds it intact.

    The memory belongs to training: evaluation neither reads nor changes it. It is saved in checkpoints with
    the loss's variables (4 M D bytes), and never exported. With several replicas each holds the whole memory,
    filled by the whole batch. Cost: O(B M D), and what mining takes for [B, M] pairs.

    Differs: the authors' code enters the batch before the comparison, so that its pairs count twice, and
    leaves the memory empty until ``start_step``; here it is filled from the first step. Their contrastive
    loss sums similarities over the pairs and divides by B; here the loss averages as it does in a batch.

    Args:
        loss: The loss of pairs; one that ``takes_candidates``.
        embedding_dim: D >= 1; required.
        size: M >= 1, number of stored embeddings.
        start_step: >= 0; number of steps that are trained without the memory.
        weight: > 0; factor on the loss over the memory.
        name: Name of the loss.

    Attributes:
        stored_embeddings: Variable [M, D], float32, the oldest first; unused rows come before them.
        stored_labels: Variable [M], int64.
        num_stored: Variable, int64 scalar; number of rows in use.
        steps: Variable, int64 scalar; number of training steps so far.
    """

    def __init__(
        self,
        loss: MetricLoss,
        embedding_dim: Optional[int] = None,
        size: int = 8192,
        start_step: int = 1000,
        weight: float = 1.0,
        name: Optional[str] = None,
    ):
        is_loss = isinstance(loss, MetricLoss)
        self.check_loss(loss if is_loss else None, loss.name if is_loss else repr(loss))
        super().__init__(name, loss.representative_pairs)
        self.loss = loss
        self.embedding_dim = check_count("embedding_dim", embedding_dim, EMBEDDING_DIM_CURE)
        self.size = check_count("size", size, "Leave the memory out to train without one.")
        self.start_step = check_count("start_step", start_step, "0 uses the memory at once.", minimum=0)
        self.weight = check_finite_above("weight", weight, 0.0)
        self.normalized_embeddings = loss.normalized_embeddings
        self.baseline_queries = loss.baseline_queries
        self.learning_rate = loss.variable_learning_rate
        self.stored_embeddings = _state("stored_embeddings", [self.size, self.embedding_dim], tf.float32)
        self.stored_labels = _state("stored_labels", [self.size], tf.int64)
        self.num_stored = _state("num_stored", [], tf.int64)
        self.steps = _state("steps", [], tf.int64)

    @staticmethod
    def check_loss(loss: Any, name: str) -> None:
        """Raises ValueError unless a loss, or a class of losses, takes the memory's entries as candidates."""
        if not getattr(loss, "takes_candidates", False):
            known = ", ".join(registry.names_taking_candidates())
            raise ValueError(f"`loss` must be one of {known} with a cross-batch memory, got {name}.")

    def training_step(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> tf.Tensor:
        """Returns the loss with the memory, and then stores the batch; the arguments are those of a call."""
        return self._value(y_true, y_pred, sample_weight, self._training_loss)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, with that of the wrapped loss; checkpoints hold the memory."""
        return {**super().get_config(), "loss": tf.keras.losses.serialize(self.loss)}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "CrossBatchMemory":
        """Returns a loss with an empty memory from what `get_config` returned."""
        return cls(**{**config, "loss": tf.keras.losses.deserialize(config["loss"])})

    def _label_checks(self, labels: tf.Tensor) -> tuple[Check, ...]:
        whole = tf.reduce_all(tf.equal(labels, tf.round(labels)))
        message = "`y_true` must be whole numbers with a cross-batch memory, which stores them as integers."
        return (*self.loss._label_checks(labels), Check(whole, message))

    def _batch_loss(self, batch: EmbeddingBatch) -> tf.Tensor:
        return _evaluation_only(self.loss._batch_loss(batch))

    def _training_loss(self, batch: EmbeddingBatch) -> tf.Tensor:
        check_embedding_dim(batch.embeddings, self.embedding_dim)
        value = self.loss._batch_loss(batch)
        value += self.weight * self.loss._batch_loss(batch._replace(candidates=self._entries(batch)))
        self._store(batch)
        return value

    def _entries(self, batch: EmbeddingBatch) -> Candidates:
        """Returns the memory; before `start_step` without an entry."""
        num_used = tf.where(self.steps >= self.start_step, self.num_stored, 0)
        return Candidates(
            tf.stop_gradient(tf.cast(self.stored_embeddings, batch.embeddings.dtype)),
            tf.cast(self.stored_labels, batch.labels.dtype),
            tf.range(self.size, dtype=tf.int64) >= self.size - num_used,
        )

    def _store(self, batch: EmbeddingBatch) -> None:
        embeddings = tf.stop_gradient(batch.embeddings)
        is_finite = tf.reduce_all(tf.math.is_finite(embeddings))
        for variable, new in ((self.stored_embeddings, embeddings), (self.stored_labels, batch.labels)):
            new = tf.cast(new, variable.dtype)
            shifted = tf.concat([variable, new], axis=0)[-self.size :]
            variable.assign(tf.where(is_finite, shifted, variable))
        num_new = tf.where(is_finite, tf.shape(embeddings, out_type=tf.int64)[0], 0)
        self.num_stored.assign(tf.minimum(self.num_stored + num_new, self.size))
        self.steps.assign_add(1)


def _state(name: str, shape: list[int], dtype: tf.DType) -> tf.Variable:
    """Returns a variable of zeros that each replica keeps for itself; all assign the same values to it."""
    return tf.Variable(
        tf.zeros(shape, dtype),
        trainable=False,
        name=name,
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
    )


@tf.custom_gradient
def _evaluation_only(value: tf.Tensor) -> tuple[tf.Tensor, Any]:
    """Returns the value; raises ValueError when its gradient is asked for."""

    def gradient(upstream: tf.Tensor) -> tf.Tensor:
        raise ValueError(_TRAINING_ONLY)

    return tf.identity(value), gradient
