"""The proximal term that ties each projection to the weights it began with (paper, equations 4.6 and 4.7).

    penalty(theta) = lambda / 2 * sum ||w - w_anchor||^2      gradient: lambda * (w - w_anchor)

The sum is over the embedder's trainable variables. The gradient is added to the loss's gradient before the
optimiser, which gives the same update as differentiating the penalty, without recording it on the tape.
"""

from collections.abc import Callable, Sequence
from typing import Union

import tensorflow as tf

from profs_tf.distribution.collectives import ONE_FOR_EACH

# Of the second kind are Keras's learning-rate schedules: from a step to lambda.
ProximalWeight = Union[float, Callable[[tf.Tensor], tf.Tensor]]


class ProximalTerm(tf.Module):
    """Anchor weights theta^(k), the penalty on the way from them, and its gradient.

    Two ways to move the anchor:

    * M > 1: `swap` copies the current weights into the anchors; it is called before the first step of every
      projection.
    * M = 1: the anchor would always equal the weights and the term would vanish, so the anchor is the weights
      *before the previous step* (``lagged``); `follow` moves it once a step, inside the training step.
      Differs: the paper's Algorithm 1 read to the letter has no penalty at M = 1, yet its section 5.5 reports
      a gain from it for SoftTriple, where every step is a projection of its own.

    Attributes:
        anchor_weights: one non-trainable variable for each variable of the embedder, same shape and dtype.
        projection_index: int64 scalar variable, k; -1 before the first projection begins.
        lagged: whether the anchor is the weights before the previous step.
        in_use: whether a callback moves the anchors; training without one is refused by the model.
    """

    def __init__(self, variables: Sequence[tf.Variable], proximal_weight: ProximalWeight = 1e-3) -> None:
        """Creates the anchors at the variables' present values; costs their memory once more.

        Args:
            variables: the embedder's trainable variables.
            proximal_weight: lambda, a number >= 0, or a Keras learning-rate schedule that gives lambda for a
                step (section 5.4.2 suggests to let it decay as training converges).

        Raises:
            ValueError: if `proximal_weight` is negative or not finite.
        """
        super().__init__(name="proximal")
        self._variables = list(variables)
        self.proximal_weight = check_proximal_weight(proximal_weight)
        self.anchor_weights = [
            tf.Variable(variable, trainable=False, name=f"anchor_{number}", **ONE_FOR_EACH)
            for number, variable in enumerate(self._variables)
        ]
        self.projection_index = tf.Variable(
            -1, trainable=False, dtype=tf.int64, name="projection_index", **ONE_FOR_EACH
        )
        self.lagged = False
        self.in_use = False
        self._swap = tf.function(self._assign_anchors)

    @property
    def is_active(self) -> bool:
        """Whether the term is there at all: false for a constant weight of 0."""
        return callable(self.proximal_weight) or self.proximal_weight > 0.0

    def weight_at(self, step: tf.Tensor) -> tf.Tensor:
        """Returns lambda for a step, float32 scalar."""
        if callable(self.proximal_weight):
            return tf.cast(self.proximal_weight(step), tf.float32)
        return tf.constant(self.proximal_weight, tf.float32)

    def penalty_and_gradients(self, step: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Returns the penalty, float32 scalar, and its gradient for each variable; O(weights)."""
        weight = self.weight_at(step)
        halved_squares, gradients = [], []
        for variable, anchor in zip(self._variables, self.anchor_weights):
            difference = variable - anchor
            halved_squares.append(tf.cast(tf.nn.l2_loss(difference), tf.float32))
            gradients.append(tf.cast(weight, difference.dtype) * difference)
        return weight * tf.add_n(halved_squares), gradients

    def follow(self, step: tf.Tensor) -> None:
        """Moves the anchors to the current weights, before step t updates them, when `lagged`."""
        self._assign_anchors()
        self.projection_index.assign(step)

    def swap(self, projection_index: int) -> None:
        """Begins projection k: the anchors become the current weights; O(weights)."""
        self._swap()
        self.projection_index.assign(projection_index)

    def _assign_anchors(self) -> None:
        for variable, anchor in zip(self._variables, self.anchor_weights):
            anchor.assign(variable)


def check_proximal_weight(proximal_weight: ProximalWeight) -> ProximalWeight:
    """Returns the weight, or raises ValueError if it is neither a schedule nor a finite number >= 0."""
    if callable(proximal_weight):
        return proximal_weight
    if not 0.0 <= proximal_weight < float("inf"):
        raise ValueError(f"`proximal_weight` must be >= 0 and finite, got {proximal_weight}.")
    return float(proximal_weight)
