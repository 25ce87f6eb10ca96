"""The Proxy-Anchor loss."""

import math
from typing import Optional

import tensorflow as tf

from profs_tf.losses.batch import EmbeddingBatch
from profs_tf.losses.ops import masked_log_sum_exp, masked_mean
from profs_tf.losses.proxies import ProxyLoss
from profs_tf.utils.checks import check_finite_above, check_finite_at_least


@tf.keras.utils.register_keras_serializable(package="profs_tf")
class ProxyAnchorLoss(ProxyLoss):
    """Proxy-Anchor loss.

    Kim, Kim, Cho, Kwak: "Proxy Anchor Loss for Deep Metric Learning", CVPR 2020, equation 4.

        s_ic  = E_i . p_c, a cosine, since embeddings E and proxies p have unit length
        value: mean over the classes c of queries of log(1 + sum_{i of c} exp(-scale (s_ic - margin)))
             + mean over all classes c of log(1 + sum_{i not of c} exp(scale (s_ic + margin)))

    The sums are over queries. There are no pairs of images, hence no representatives: in PROFS the proxies
    take their role in class mining. Without a mask every image is a query. Cost: O(B L D).

    The paper trains by AdamW at 1e-4, and the proxies at 100 times that (section 4.2): the default of
    ``learning_rate``. The initial lengths are those of its published code, about sqrt(2 D / L): the longer
    a proxy, the less a step of Adam turns it.

    Args:
        num_classes: L >= 1, number of training classes; required. Labels must be 0 ... num_classes - 1.
        embedding_dim: D >= 1; required.
        margin: >= 0; the paper's delta.
        scale: > 0; the paper's alpha.
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
        margin: float = 0.1,
        scale: float = 32.0,
        learning_rate: float = 1e-2,
        seed: int = 0,
        name: Optional[str] = None,
    ):
        super().__init__(num_classes, embedding_dim, learning_rate, seed, name)
        self.margin = check_finite_at_least("margin", margin, 0.0)
        self.scale = check_finite_above("scale", scale, 0.0)
        self.proxies.assign(math.sqrt(2.0 * self.embedding_dim / self.num_classes) * self.proxies)

    def _batch_loss(self, batch: EmbeddingBatch) -> tf.Tensor:
        similarities = tf.transpose(self._similarities(batch.embeddings))
        is_own = tf.transpose(self._is_own(batch.labels))
        positives = tf.logical_and(is_own, batch.is_query)
        negatives = tf.logical_and(tf.logical_not(is_own), batch.is_query)
        pull = tf.nn.softplus(masked_log_sum_exp(self.scale * (self.margin - similarities), positives))
        push = tf.nn.softplus(masked_log_sum_exp(self.scale * (self.margin + similarities), negatives))
        return masked_mean(pull, tf.reduce_any(positives, axis=1)) + tf.reduce_mean(push)
