"""The Proxy-NCA loss."""

from typing import Optional

import tensorflow as tf

from profs_tf.losses.batch import EmbeddingBatch
from profs_tf.losses.ops import masked_log_sum_exp, masked_mean
from profs_tf.losses.prototypes import check_embedding_dim
from profs_tf.losses.proxies import ProxyLoss
from profs_tf.utils.checks import check_finite_above


@tf.keras.utils.register_keras_serializable(package="profs_tf")
class ProxyNCALoss(ProxyLoss):
    """Proxy-NCA loss.

    Movshovitz-Attias, Toshev, Leung, Ioffe, Singh: "No Fuss Distance Metric Learning using Proxies", ICCV
    2017.

        D_ic  = ||scale E_i - scale p_c||^2
        value: mean over the queries i of -log(exp(-D_iy) / sum_{c != y} exp(-D_ic)), y the class of i

    p are the proxies, normalized to unit length, one for each of L classes. The embeddings E are expected to
    have unit length; both are multiplied by ``scale``. There are no pairs of images, hence no
    representatives: in PROFS the proxies take their role in class mining. Without a mask every image is a
    query. The value may be negative; with ``positive_in_denominator`` it is a cross entropy and is not. Cost:
    O(B L D).

    Args:
        num_classes: L >= 2, number of training classes; required. Labels must be 0 ... num_classes - 1.
        embedding_dim: D >= 1; required.
        scale: > 0; length of the embeddings and proxies.
        positive_in_denominator: Whether the sum in the denominator includes the image's own class.
        learning_rate: > 0; learning rate of the proxies in ProfsModel.
        seed: Seed of the proxies' initial directions.
        name: Name of the loss.

    Attributes:
        proxies: Trainable variable [L, D], float32; the stored vectors need not have unit length.
    """

    def __init__(
        self,
        num_classes: Optional[int] = None,
        embedding_dim: Optional[int] = None,
        scale: float = 3.0,
        positive_in_denominator: bool = False,
        learning_rate: float = 1e-2,
        seed: int = 0,
        name: Optional[str] = None,
    ):
        super().__init__(num_classes, embedding_dim, learning_rate, seed, name, minimum_classes=2)
        self.scale = check_finite_above("scale", scale, 0.0)
        self.positive_in_denominator = positive_in_denominator

    def _distances_sq(self, embeddings: tf.Tensor) -> tf.Tensor:
        """Returns D_ic, [B, L]. The differences are not small, so float32 products are accurate enough."""
        proxies = tf.math.l2_normalize(tf.cast(self.proxies, embeddings.dtype), axis=1)
        norms_sq = tf.reduce_sum(tf.square(embeddings), axis=1, keepdims=True)
        proxy_norms_sq = tf.reduce_sum(tf.square(proxies), axis=1)
        products = tf.matmul(embeddings, proxies, transpose_b=True)
        return self.scale**2 * (norms_sq + proxy_norms_sq - 2.0 * products)

    def _batch_loss(self, batch: EmbeddingBatch) -> tf.Tensor:
        check_embedding_dim(batch.embeddings, self.embedding_dim)
        distances_sq = self._distances_sq(batch.embeddings)
        is_own = self._is_own(batch.labels)
        own_sq = tf.reduce_sum(tf.where(is_own, distances_sq, tf.zeros_like(distances_sq)), axis=1)
        in_denominator = tf.logical_or(tf.logical_not(is_own), self.positive_in_denominator)
        return masked_mean(own_sq + masked_log_sum_exp(-distances_sq, in_denominator), batch.is_query)
