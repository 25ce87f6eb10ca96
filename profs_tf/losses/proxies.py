"""The base class of the losses that compare images with one proxy per class.

Shapes: B images in the batch, L classes, D embedding dimensions.
"""

from typing import Optional

import tensorflow as tf

from profs_tf.losses.base import MetricLoss
from profs_tf.losses.batch import Check, EmbeddingBatch
from profs_tf.losses.ops import masked_mean
from profs_tf.losses.prototypes import (
    EMBEDDING_DIM_CURE,
    NUM_CLASSES_CURE,
    check_embedding_dim,
    class_index_checks,
    class_indices,
    unit_vectors,
)
from profs_tf.utils.checks import check_count, check_finite_above


class ProxyLoss(MetricLoss):
    """A loss with one proxy per class: a trained vector, of which only the direction counts.

    There are no pairs of images, hence no representatives: in PROFS each step is a projection of its own, and
    the proxies take the role of representatives in class mining (PROFS paper, section 5.3). With a query mask
    only queries are compared with the proxies; without one every image is.

    Args:
        num_classes: L, number of training classes; required. Labels must be 0 ... num_classes - 1.
        embedding_dim: D >= 1; required.
        learning_rate: > 0; learning rate of the proxies in ProfsModel.
        seed: Seed of the proxies' initial directions.
        name: Name of the loss.
        minimum_classes: Smallest valid L.

    Attributes:
        proxies: Trainable variable [L, D], float32; the stored vectors need not have unit length, but do at
            first.
    """

    has_prototypes = True

    def __init__(
        self,
        num_classes: Optional[int],
        embedding_dim: Optional[int],
        learning_rate: float,
        seed: int,
        name: Optional[str],
        minimum_classes: int = 1,
    ):
        super().__init__(name)
        self.num_classes = check_count("num_classes", num_classes, NUM_CLASSES_CURE, minimum_classes)
        self.embedding_dim = check_count("embedding_dim", embedding_dim, EMBEDDING_DIM_CURE)
        self.learning_rate = check_finite_above("learning_rate", learning_rate, 0.0)
        self.seed = seed
        self.proxies = unit_vectors("proxies", [self.num_classes, self.embedding_dim], seed)

    def class_vectors(self) -> tf.Tensor:
        """Returns the normalized proxies, float32 [L, D]; O(L D)."""
        return tf.math.l2_normalize(self.proxies, axis=1)

    def _label_checks(self, labels: tf.Tensor) -> tuple[Check, ...]:
        return class_index_checks(labels, self.num_classes)

    def _is_own(self, labels: tf.Tensor) -> tf.Tensor:
        """Returns [B, L] bool: True for the class of the image."""
        targets = class_indices(labels, self.num_classes)
        return tf.one_hot(targets, self.num_classes, on_value=True, off_value=False)

    def _similarities(self, embeddings: tf.Tensor) -> tf.Tensor:
        """Returns the products E_i . p_c with the proxies p at unit length, [B, L].

        Normalizing the products is faster than normalizing the proxies: SOP has 11,318 classes.
        """
        check_embedding_dim(embeddings, self.embedding_dim)
        proxies = tf.cast(self.proxies, embeddings.dtype)
        inverse_lengths = tf.math.rsqrt(tf.maximum(tf.reduce_sum(tf.square(proxies), axis=1), 1e-12))
        return tf.matmul(embeddings, proxies, transpose_b=True) * inverse_lengths

    def _mean_cross_entropy(self, batch: EmbeddingBatch, logits: tf.Tensor) -> tf.Tensor:
        """Returns the cross entropy of the ``logits`` [B, L] with the labels, averaged over the queries."""
        targets = class_indices(batch.labels, self.num_classes)
        entropies = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits)
        return masked_mean(entropies, batch.is_query)
