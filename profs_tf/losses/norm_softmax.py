"""The normalized softmax loss."""

from typing import Optional

import tensorflow as tf

from profs_tf.losses.batch import EmbeddingBatch
from profs_tf.losses.proxies import ProxyLoss
from profs_tf.utils.checks import check_finite_above


@tf.keras.utils.register_keras_serializable(package="profs_tf")
class NormSoftmaxLoss(ProxyLoss):
    """Normalized softmax loss: classification by cosines, at a temperature.

    Zhai, Wu: "Classification is a Strong Baseline for Deep Metric Learning", BMVC 2019, equation 2.

        s_ic  = E_i . p_c, a cosine, since embeddings E and proxies p have unit length
        value: mean over the queries i of -log(exp(s_iy / temperature) / sum_c exp(s_ic / temperature)),
               y the class of i

    There are no pairs of images, hence no representatives: in PROFS the proxies take their role in class
    mining. Without a mask every image is a query. Cost: O(B L D).

    The paper trains network and proxies by SGD at one rate of 1e-3 or 1e-2, which has no counterpart under
    Adam; the default of ``learning_rate`` is that of the other losses with proxies. *Differs:* layer
    normalization before the embedding is scaled to unit length is not part of the loss.

    Args:
        num_classes: L >= 1, number of training classes; required. Labels must be 0 ... num_classes - 1.
        embedding_dim: D >= 1; required.
        temperature: > 0; the paper's sigma.
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
        temperature: float = 0.05,
        learning_rate: float = 1e-2,
        seed: int = 0,
        name: Optional[str] = None,
    ):
        super().__init__(num_classes, embedding_dim, learning_rate, seed, name)
        self.temperature = check_finite_above("temperature", temperature, 0.0)

    def _batch_loss(self, batch: EmbeddingBatch) -> tf.Tensor:
        return self._mean_cross_entropy(batch, self._similarities(batch.embeddings) / self.temperature)
