"""The SoftTriple loss."""

from typing import Optional

import tensorflow as tf

from profs_tf.losses.base import MetricLoss
from profs_tf.losses.batch import Check, EmbeddingBatch
from profs_tf.losses.distances import safe_sqrt
from profs_tf.losses.ops import masked_mean
from profs_tf.losses.prototypes import (
    EMBEDDING_DIM_CURE,
    NUM_CLASSES_CURE,
    check_embedding_dim,
    class_index_checks,
    class_indices,
    unit_vectors,
)
from profs_tf.utils.checks import check_count, check_finite_above, check_finite_at_least


@tf.keras.utils.register_keras_serializable(package="profs_tf")
class SoftTripleLoss(MetricLoss):
    """SoftTriple loss.

    Qian, Shang, Sun, Hu, Li, Jin: "SoftTriple Loss: Deep Metric Learning Without Triplet Sampling", ICCV
    2019.

        s_ic  = sum_k softmax_k(E_i . w_ck / gamma) E_i . w_ck
        value: mean over the queries i of the cross entropy of scale (s_ic - margin [c = y_i])
               + tau * sum_c sum_{k < m} sqrt(2 + 1e-5 - 2 w_ck . w_cm) / (L K (K - 1))

    w are the centers, normalized to unit length, K for each of L classes; E are the embeddings. The second
    part merges centers that a class does not need. There are no pairs of images, hence no representatives: in
    PROFS each step is a projection of its own, and the centers take the role of representatives in class
    mining (PROFS paper, section 5.3). Without a mask every image is a query. Cost: time
    O(B L K D + L K^2 D), memory O(B L K + L K D + L K^2).

    Args:
        num_classes: L >= 1, number of training classes; required. Labels must be 0 ... num_classes - 1.
        embedding_dim: D >= 1; required.
        centers_per_class: K >= 1.
        scale: > 0; factor on the similarities in the cross entropy (the paper's lambda).
        gamma: > 0; temperature of the softmax over a class's centers.
        tau: >= 0; weight of the second part.
        margin: >= 0; margin by which the target's similarity must exceed the others (the paper's delta).
        learning_rate: > 0; learning rate of the centers in ProfsModel.
        seed: Seed of the centers' initial directions.
        name: Name of the loss.

    Attributes:
        centers: Trainable variable [L, K, D], float32; the stored vectors need not have unit length.
    """

    has_prototypes = True

    def __init__(
        self,
        num_classes: Optional[int] = None,
        embedding_dim: Optional[int] = None,
        centers_per_class: int = 10,
        scale: float = 20.0,
        gamma: float = 0.1,
        tau: float = 0.2,
        margin: float = 0.01,
        learning_rate: float = 1e-2,
        seed: int = 0,
        name: Optional[str] = None,
    ):
        super().__init__(name)
        self.num_classes = check_count("num_classes", num_classes, NUM_CLASSES_CURE)
        self.embedding_dim = check_count("embedding_dim", embedding_dim, EMBEDDING_DIM_CURE)
        self.centers_per_class = check_count("centers_per_class", centers_per_class, "1 is a single center.")
        self.scale = check_finite_above("scale", scale, 0.0)
        self.gamma = check_finite_above("gamma", gamma, 0.0)
        self.tau = check_finite_at_least("tau", tau, 0.0)
        self.margin = check_finite_at_least("margin", margin, 0.0)
        self.learning_rate = check_finite_above("learning_rate", learning_rate, 0.0)
        self.seed = seed
        shape = [self.num_classes, self.centers_per_class, self.embedding_dim]
        self.centers = unit_vectors("centers", shape, seed)

    def class_vectors(self) -> tf.Tensor:
        """Returns the mean direction of each class's centers, float32 [L, D]; O(L K D).

            v_c = u_c / ||u_c||,  u_c = sum_k w_ck, with the centers w at unit length

        Class mining compares classes by these vectors rather than by the smallest distance between two of
        their centers, which would store and scan K times as much (230 MB for SOP) and take O(K^2 L D) per
        seed class; the paper states a scan of O(L). The second part of the loss draws a class's centers
        together, so that their mean represents them.
        """
        lengths_sq = tf.reduce_sum(tf.square(self.centers), axis=2)
        inverse_lengths = tf.math.rsqrt(tf.maximum(lengths_sq, 1e-12))
        return tf.math.l2_normalize(tf.einsum("lkd,lk->ld", self.centers, inverse_lengths), axis=1)

    def _label_checks(self, labels: tf.Tensor) -> tuple[Check, ...]:
        return class_index_checks(labels, self.num_classes)

    def _class_similarities(
        self, embeddings: tf.Tensor, centers: tf.Tensor, inverse_lengths: tf.Tensor
    ) -> tf.Tensor:
        """Returns s_ic, [B, L]."""
        similarities = tf.einsum("bd,lkd->blk", embeddings, centers) * inverse_lengths
        return tf.reduce_sum(tf.nn.softmax(similarities / self.gamma, axis=2) * similarities, axis=2)

    def _center_distances(self, centers: tf.Tensor, inverse_lengths: tf.Tensor) -> tf.Tensor:
        """Returns the second part without tau; 0 for one center per class."""
        count = self.centers_per_class
        if count == 1:
            return tf.zeros([], centers.dtype)
        products = tf.linalg.matmul(centers, centers, transpose_b=True)
        products *= inverse_lengths[:, :, tf.newaxis] * inverse_lengths[:, tf.newaxis, :]
        # The 1e-5 keeps the gradient finite for centers that coincide.
        distances = safe_sqrt(tf.nn.relu(2.0 + 1e-5 - 2.0 * products))
        first_below_second = tf.range(count)[:, tf.newaxis] < tf.range(count)
        unordered = tf.where(first_below_second, distances, tf.zeros_like(distances))
        return tf.reduce_sum(unordered) / (self.num_classes * count * (count - 1))

    def _batch_loss(self, batch: EmbeddingBatch) -> tf.Tensor:
        check_embedding_dim(batch.embeddings, self.embedding_dim)
        centers = tf.cast(self.centers, batch.embeddings.dtype)
        # Normalizing the products is faster than normalizing the centers: with the 11,318 classes of SOP
        # there are 14 million products in a batch, and 58 million numbers in the centers.
        inverse_lengths = tf.math.rsqrt(tf.maximum(tf.reduce_sum(tf.square(centers), axis=2), 1e-12))
        targets = class_indices(batch.labels, self.num_classes)
        similarities = self._class_similarities(batch.embeddings, centers, inverse_lengths)
        margins = self.margin * tf.one_hot(targets, self.num_classes, dtype=similarities.dtype)
        logits = self.scale * (similarities - margins)
        entropies = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits)
        distances = self._center_distances(centers, inverse_lengths)
        return masked_mean(entropies, batch.is_query) + self.tau * distances
