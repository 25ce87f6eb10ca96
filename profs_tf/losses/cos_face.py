"""The CosFace loss."""

from typing import Optional

import tensorflow as tf

from profs_tf.losses.batch import EmbeddingBatch
from profs_tf.losses.proxies import ProxyLoss
from profs_tf.utils.checks import check_finite_above, check_finite_at_least


@tf.keras.utils.register_keras_serializable(package="profs_tf")
class CosFaceLoss(ProxyLoss):
    """CosFace, the large margin cosine loss.

    Wang, Wang, Zhou, Ji, Gong, Zhou, Li, Liu: "CosFace: Large Margin Cosine Loss for Deep Face Recognition",
    CVPR 2018, equation 4. The same as AM-Softmax (Wang, Cheng, Liu, Liu 2018).

        s_ic  = E_i . p_c, a cosine, since embeddings E and proxies p have unit length
        value: mean over the queries i of the cross entropy of scale (s_ic - margin [c = y_i])

    There are no pairs of images, hence no representatives: in PROFS the proxies take their role in class
    mining. Without a mask every image is a query. Cost: O(B L D).

    The paper trains network and proxies by SGD at one rate, which has no counterpart under Adam; the default
    of ``learning_rate`` is that of the other losses with proxies.

    Args:
        num_classes: L >= 1, number of training classes; required. Labels must be 0 ... num_classes - 1.
        embedding_dim: D >= 1; required.
        margin: >= 0; margin by which the cosine of the own class must exceed the others (the paper's m).
        scale: > 0; factor on the cosines (the paper's s).
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
        margin: float = 0.35,
        scale: float = 64.0,
        learning_rate: float = 1e-2,
        seed: int = 0,
        name: Optional[str] = None,
    ):
        super().__init__(num_classes, embedding_dim, learning_rate, seed, name)
        self.margin = check_finite_at_least("margin", margin, 0.0)
        self.scale = check_finite_above("scale", scale, 0.0)

    def _batch_loss(self, batch: EmbeddingBatch) -> tf.Tensor:
        similarities = self._similarities(batch.embeddings)
        lowered = tf.where(self._is_own(batch.labels), similarities - self.margin, similarities)
        return self._mean_cross_entropy(batch, self.scale * lowered)
