"""The outputs of a training step that samplers and callbacks read.

Shapes: B images in a batch, C classes in a batch, D embedding dimension.
"""

from typing import Any

import tensorflow as tf

from profs_tf.distribution.collectives import PER_REPLICA

_PRIME = 1_000_003


class RepresentativeTap:
    """The labels and embeddings that the last step computed for its representatives.

    Not a tf.Module: Keras then does not list its variables among the model's, and no checkpoint holds them.

    Attributes:
        classes: int64 [C] variable.
        embeddings: float32 [C, D] variable.
    """

    def __init__(self, classes_per_batch: int, embedding_dim: int) -> None:
        """Allocates the variables."""
        zeros = tf.zeros([classes_per_batch, embedding_dim])
        self.classes = tf.Variable(tf.cast(zeros[:, 0], tf.int64), trainable=False, **PER_REPLICA)
        self.embeddings = tf.Variable(zeros, trainable=False, **PER_REPLICA)

    def record(self, labels: tf.Tensor, embeddings: tf.Tensor) -> None:
        """Keeps the first C labels and embeddings of a batch, which are the representatives'."""
        count = self.classes.shape[0]
        self.classes.assign(tf.cast(tf.reshape(labels, [-1])[:count], tf.int64))
        self.embeddings.assign(tf.cast(embeddings[:count], tf.float32))


class LossTap:
    """The loss that the last step computed, without the proximal penalty; not a tf.Module either.

    Attributes:
        loss: float32 scalar variable.
    """

    def __init__(self) -> None:
        """Allocates the variable."""
        self.loss = tf.Variable(0.0, trainable=False, dtype=tf.float32, **PER_REPLICA)

    def record(self, loss: tf.Tensor) -> None:
        """Keeps the loss; part of the step."""
        self.loss.assign(loss)


class BatchFingerprint:
    """A number that tells the last batch's labels and their order; not a tf.Module either.

    The callback compares it with the batch that its sampler gives for the step, and so notices data of
    another sampler, or data that are out of step.
    """

    def __init__(self) -> None:
        """Allocates the variable."""
        self._value = tf.Variable(0, trainable=False, dtype=tf.int64, **PER_REPLICA)

    def record(self, labels: tf.Tensor) -> None:
        """Keeps the number of the labels [B]; part of the step."""
        self._value.assign(_fingerprint(labels))

    def is_of(self, labels: Any) -> bool:
        """Returns whether the last batch had these labels [B], in this order."""
        return int(self._value.numpy()) == int(_fingerprint(labels))


def _fingerprint(labels: Any) -> tf.Tensor:
    labels = tf.cast(tf.reshape(labels, [-1]), tf.int64) % _PRIME
    return tf.reduce_sum(labels * tf.range(1, tf.size(labels, tf.int64) + 1, dtype=tf.int64))
