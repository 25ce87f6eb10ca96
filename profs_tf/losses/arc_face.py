"""The ArcFace loss."""

import math
from typing import Optional

import tensorflow as tf

from profs_tf.losses.batch import EmbeddingBatch
from profs_tf.losses.distances import safe_sqrt
from profs_tf.losses.proxies import ProxyLoss
from profs_tf.utils.checks import check_finite_above


@tf.keras.utils.register_keras_serializable(package="profs_tf")
class ArcFaceLoss(ProxyLoss):
    """ArcFace, the additive angular margin loss.

    Deng, Guo, Xue, Zafeiriou: "ArcFace: Additive Angular Margin Loss for Deep Face Recognition", CVPR 2019,
    equation 3.

        t_ic  = the angle between embedding E_i and proxy p_c
        value: mean over the queries i of the cross entropy of scale cos(t_ic + margin [c = y_i])

    Beyond an angle of 180 degrees - margin, cos(t + margin) would rise again, and the loss would push an
    image away from its proxy. There cos(t) - margin sin(margin), with the margin in radians, takes its place,
    as in the published code (its default, without "easy margin"): it keeps falling, after a step down of
    0.12 at the default margin. Where the angle is 0 or 180 degrees, the gradient of its sine is taken as 0;
    elsewhere the gradient of the value has a bounded length, since it runs along the sphere.

    There are no pairs of images, hence no representatives: in PROFS the proxies take their role in class
    mining. Without a mask every image is a query. Angles do not depend on the lengths of the embeddings, so
    the loss scales them to unit length itself. Cost: O(B L D).

    The paper trains network and proxies by SGD at one rate, which has no counterpart under Adam; the default
    of ``learning_rate`` is that of the other losses with proxies.

    Args:
        num_classes: L >= 1, number of training classes; required. Labels must be 0 ... num_classes - 1.
        embedding_dim: D >= 1; required.
        margin: Angle that is added to that of the own class, in degrees, from 0 to 90. The paper's m = 0.5 is
            28.6 degrees.
        scale: > 0; factor on the cosines (the paper's s).
        learning_rate: > 0; learning rate of the proxies in ProfsModel.
        seed: Seed of the proxies' initial directions.
        name: Name of the loss.

    Attributes:
        proxies: Trainable variable [L, D], float32; the stored vectors need not have unit length.

    Raises:
        ValueError: If an option is out of range.
    """

    def __init__(
        self,
        num_classes: Optional[int] = None,
        embedding_dim: Optional[int] = None,
        margin: float = 28.6,
        scale: float = 64.0,
        learning_rate: float = 1e-2,
        seed: int = 0,
        name: Optional[str] = None,
    ):
        super().__init__(num_classes, embedding_dim, learning_rate, seed, name)
        if not 0.0 <= margin <= 90.0:
            raise ValueError(f"`margin` must be from 0 to 90 degrees, got {margin}.")
        self.margin = float(margin)
        self.scale = check_finite_above("scale", scale, 0.0)

    def _with_margin(self, cosines: tf.Tensor) -> tf.Tensor:
        """Returns cos(t + margin) from cos(t), or what takes its place beyond 180 degrees - margin."""
        margin = math.radians(self.margin)
        # Not by acos, whose gradient is infinite at 1 and -1. Where rounding leaves [-1, 1], the sine is 0.
        sines = safe_sqrt((1.0 - cosines) * (1.0 + cosines))
        turned = math.cos(margin) * cosines - math.sin(margin) * sines
        return tf.where(cosines > -math.cos(margin), turned, cosines - margin * math.sin(margin))

    def _batch_loss(self, batch: EmbeddingBatch) -> tf.Tensor:
        cosines = self._similarities(tf.math.l2_normalize(batch.embeddings, axis=1))
        is_own = self._is_own(batch.labels)
        own = tf.reduce_sum(tf.where(is_own, cosines, tf.zeros_like(cosines)), axis=1, keepdims=True)
        return self._mean_cross_entropy(batch, self.scale * tf.where(is_own, self._with_margin(own), cosines))
