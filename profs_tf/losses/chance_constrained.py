"""The loss of CCP: a loss over pairs of images and prototypes, and some of the ordinary loss.

Shapes: B images in the batch, L classes, K prototypes of a class, D embedding dimensions.
"""

from collections.abc import Mapping
from typing import Any, Optional

import tensorflow as tf

from profs_tf.losses.base import MetricLoss
from profs_tf.losses.batch import Candidates, Check, EmbeddingBatch
from profs_tf.losses.prototypes import (
    EMBEDDING_DIM_CURE,
    NUM_CLASSES_CURE,
    check_embedding_dim,
    class_index_checks,
    unit_vectors,
)
from profs_tf.utils.checks import check_count, check_finite_at_least


@tf.keras.utils.register_keras_serializable(package="profs_tf")
class ChanceConstrainedLoss(MetricLoss):
    """A pair loss against prototypes that were chosen among the embeddings of training images (CCP).

    Gürbüz, Can, Alatan: "Deep Metric Learning with Chance Constraints", arXiv 2209.09060.

        value: loss(pairs of an image i and a prototype w_ck) + ordinary_weight * loss(pairs of two images)

    The images of the batch are the queries, in both parts, and all L K prototypes are compared with each. The
    prototypes learn at the network's rate; `CcpCallback` chooses them anew for every projection, without it
    they start at random. Cost: that of the loss, and O(B L K D) time, O(B L K) memory.

    Args:
        loss: A loss over pairs that takes candidates (``takes_candidates``), such as the contrastive, the
            margin, the triplet and the multi-similarity loss.
        num_classes: L >= 1, number of training classes. Labels must be 0 ... num_classes - 1.
        embedding_dim: D >= 1.
        prototypes_per_class: K >= 1.
        ordinary_weight: >= 0; weight of the loss within the batch.
        seed: Seed of the prototypes' directions before any are chosen.
        name: Name of the loss.

    Attributes:
        loss: The pair loss.
        prototypes: Trainable variable [L, K, D], float32; compared at unit length if the loss expects
            normalized embeddings.
    """

    def __init__(
        self,
        loss: MetricLoss,
        num_classes: Optional[int] = None,
        embedding_dim: Optional[int] = None,
        prototypes_per_class: int = 8,
        ordinary_weight: float = 0.1,
        seed: int = 0,
        name: Optional[str] = None,
    ):
        super().__init__(name)
        if not isinstance(loss, MetricLoss) or not loss.takes_candidates:
            got = loss.name if isinstance(loss, MetricLoss) else repr(loss)
            raise ValueError(
                f"`loss` must be a loss over pairs for CCP, got {got}. Take the contrastive, the margin, the "
                "triplet or the multi-similarity loss."
            )
        self.loss = loss
        self.num_classes = check_count("num_classes", num_classes, NUM_CLASSES_CURE)
        self.embedding_dim = check_count("embedding_dim", embedding_dim, EMBEDDING_DIM_CURE)
        self.prototypes_per_class = check_count(
            "prototypes_per_class", prototypes_per_class, "1 is a single prototype."
        )
        self.ordinary_weight = check_finite_at_least("ordinary_weight", ordinary_weight, 0.0)
        self.seed = seed
        self.normalized_embeddings = loss.normalized_embeddings
        shape = [self.num_classes, self.prototypes_per_class, self.embedding_dim]
        self.prototypes = unit_vectors("prototypes", shape, seed)

    @property
    def variables_at_own_rate(self) -> list[tf.Variable]:
        """Those of the pair loss; prototypes learn as the network does."""
        return self.loss.variables_at_own_rate

    @property
    def variable_learning_rate(self) -> Optional[float]:
        """The learning rate of the pair loss's own variables; None if it has none."""
        return self.loss.variable_learning_rate

    def compared_prototypes(self) -> tf.Tensor:
        """Returns the prototypes as images are compared with them, float32 [L, K, D]."""
        if not self.normalized_embeddings:
            return tf.convert_to_tensor(self.prototypes)
        return tf.math.l2_normalize(self.prototypes, axis=-1)

    def _label_checks(self, labels: tf.Tensor) -> tuple[Check, ...]:
        return class_index_checks(labels, self.num_classes) + self.loss._label_checks(labels)

    def _batch_loss(self, batch: EmbeddingBatch) -> tf.Tensor:
        check_embedding_dim(batch.embeddings, self.embedding_dim)
        vectors = tf.reshape(self.compared_prototypes(), [-1, self.embedding_dim])
        classes = tf.repeat(tf.range(self.num_classes), self.prototypes_per_class)
        prototypes = Candidates(
            tf.cast(vectors, batch.embeddings.dtype),
            tf.cast(classes, batch.labels.dtype),
            tf.fill(tf.shape(classes), True),
        )
        value = self.loss._batch_loss(batch._replace(candidates=prototypes))
        if not self.ordinary_weight:
            return value
        return value + self.ordinary_weight * self.loss._batch_loss(batch)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, the pair loss as its configuration."""
        return {**super().get_config(), "loss": tf.keras.saving.serialize_keras_object(self.loss)}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "ChanceConstrainedLoss":
        """Returns an equal loss, with prototypes as before any were chosen."""
        return cls(**{**config, "loss": tf.keras.saving.deserialize_keras_object(config["loss"])})
