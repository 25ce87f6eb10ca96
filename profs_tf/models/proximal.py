"""The proximal term, which ties each projection to the weights it starts from (paper, equation 4.7).

    penalty(theta) = lambda / 2 * sum ||w - w_anchor||^2      gradient: lambda * (w - w_anchor)

The sum is over the embedder's trainable variables. The gradient is added to the loss's gradient before the
optimizer, which gives the same update as differentiating the penalty, without recording it on the tape.
Equation 4.6 is the same penalty with the loss that the paper derives.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional, Union

import numpy as np
import tensorflow as tf

from profs_tf.distribution.collectives import PER_REPLICA

# A number, or a function from the step to lambda, such as Keras's learning-rate schedules.
ProximalWeight = Union[float, Callable[[tf.Tensor], tf.Tensor]]


@tf.keras.utils.register_keras_serializable("profs_tf")
class DelayedWeight(tf.keras.optimizers.schedules.LearningRateSchedule):
    """lambda as a function of the step: 0 before a first step, from there on a number or a schedule.

    With M as the first step, the first projection has no pull towards the weights it starts from, which may
    be random.
    """

    def __init__(self, proximal_weight: ProximalWeight, first_step: int) -> None:
        """Delays a weight.

        Args:
            proximal_weight: lambda from the first step on, as for `ProximalTerm`; a schedule counts the
                steps from 0.
            first_step: The first step with a pull.

        Raises:
            ValueError: If `proximal_weight` is negative or not finite.
        """
        self.proximal_weight = check_proximal_weight(proximal_weight)
        self.first_step = first_step

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """Returns lambda, float32 scalar."""
        weight = self.proximal_weight(step) if callable(self.proximal_weight) else self.proximal_weight
        weight = tf.cast(weight, tf.float32)
        return tf.where(tf.cast(step, tf.int64) < self.first_step, tf.zeros_like(weight), weight)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        weight = self.proximal_weight
        if callable(weight):
            weight = tf.keras.saving.serialize_keras_object(weight)
        return {"proximal_weight": weight, "first_step": self.first_step}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "DelayedWeight":
        """Returns an equal schedule."""
        weight = tf.keras.saving.deserialize_keras_object(config["proximal_weight"])
        return cls(weight, config["first_step"])


class ProximalTerm(tf.Module):
    """Anchor weights theta^(k), the penalty on the distance to them, and its gradient.

    Two ways to move the anchor:

    * M > 1: `swap` copies the current weights into the anchors; call it before the first step of every
      projection.
    * M = 1: the anchor would always equal the weights and the term would vanish, so the anchor is the weights
      *before the previous step* (``lagged``); `follow` moves it once per step, inside the training step.
      Differs: the paper's Algorithm 1 read to the letter has no penalty at M = 1. Yet its section 5.5 reports
      a gain from it for SoftTriple, for which every step is a projection of its own (section 5.3).

    Attributes:
        anchor_weights: One non-trainable variable for each variable of the embedder, same shape and dtype.
        projection_index: int64 scalar variable, k; -1 before the first projection starts.
        lagged: Whether the anchor is the weights before the previous step.
        first_projection_pull: Whether projection 0 has a pull; if not, lambda is 0 in it.
        in_use: Whether the anchors are moved: by `swap`, or by a callback that follows a sampler.
    """

    def __init__(self, variables: Sequence[tf.Variable], proximal_weight: ProximalWeight = 1e-3) -> None:
        """Creates the anchors at the variables' present values; costs their memory once more.

        Args:
            variables: The embedder's trainable variables.
            proximal_weight: lambda, a number >= 0, or a Keras learning-rate schedule that gives lambda for a
                step (section 5.4.2 suggests to let it decay as training converges).

        Raises:
            ValueError: If `proximal_weight` is negative or not finite.
        """
        super().__init__(name="proximal")
        self._variables = list(variables)
        self.proximal_weight = check_proximal_weight(proximal_weight)
        self.anchor_weights = [
            tf.Variable(variable, trainable=False, name=f"anchor_{number}", **PER_REPLICA)
            for number, variable in enumerate(self._variables)
        ]
        self.projection_index = tf.Variable(
            -1, trainable=False, dtype=tf.int64, name="projection_index", **PER_REPLICA
        )
        self.lagged = False
        self.first_projection_pull = True
        self.in_use = False
        self._swap = tf.function(self._assign_anchors, autograph=False)

    @property
    def is_active(self) -> bool:
        """Whether there is a penalty at all: false for a constant weight of 0."""
        return callable(self.proximal_weight) or self.proximal_weight > 0.0

    def weight_at(self, step: tf.Tensor) -> tf.Tensor:
        """Returns lambda for a step, float32 scalar."""
        if callable(self.proximal_weight):
            weight = tf.cast(self.proximal_weight(step), tf.float32)
        else:
            weight = tf.constant(self.proximal_weight, tf.float32)
        if self.first_projection_pull:
            return weight
        return tf.where(self.projection_index > 0, weight, tf.zeros_like(weight))

    def anchors_of(self, variables: Sequence[tf.Variable]) -> list[tf.Variable]:
        """Returns the anchor of each variable.

        Raises:
            ValueError: If a variable was not trainable when the anchors were created.
        """
        anchors = {known.ref(): anchor for known, anchor in zip(self._variables, self.anchor_weights)}
        for variable in variables:
            if variable.ref() not in anchors:
                raise ValueError(
                    f"`trainable` was set on a layer after `compile`: {variable.name} has no anchor weights. "
                    "Compile the model again."
                )
        return [anchors[variable.ref()] for variable in variables]

    def anchors_by_place(self, weights: Sequence[tf.Variable]) -> dict[int, tf.Variable]:
        """Returns the anchors by the places of their variables among weights that hold all of these."""
        places = {weight.ref(): place for place, weight in enumerate(weights)}
        return {places[known.ref()]: anchor for known, anchor in zip(self._variables, self.anchor_weights)}

    def penalty_and_gradients(
        self, variables: Sequence[tf.Variable], step: tf.Tensor
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Returns the penalty, float32 scalar, and its gradient for each of the variables; O(weights).

        Args:
            variables: Those that are trained now: all that have anchors, or fewer where some are frozen.
            step: t, counted from 0.

        Raises:
            ValueError: If a variable has no anchor.
        """
        weight = self.weight_at(step)
        halved_squares, gradients = [tf.zeros([])] if not variables else [], []
        for variable, anchor in zip(variables, self.anchors_of(variables)):
            difference = variable - anchor
            halved_squares.append(tf.cast(tf.nn.l2_loss(difference), tf.float32))
            gradients.append(tf.cast(weight, difference.dtype) * difference)
        return weight * tf.add_n(halved_squares), gradients

    def add_gradients(
        self, gradients: Sequence[Optional[tf.Tensor]], variables: Sequence[tf.Variable], step: tf.Tensor
    ) -> tuple[tf.Tensor, list[Optional[tf.Tensor]]]:
        """Returns the penalty and the gradients of loss and penalty; without a penalty 0 and the loss's.

        Args:
            gradients: The loss's gradient for each of the variables, None for one it does not depend on.
            variables: As for `penalty_and_gradients`.
            step: t, counted from 0.
        """
        if not self.is_active:
            return tf.zeros([]), list(gradients)
        penalty, pull = self.penalty_and_gradients(variables, step)
        added = [p if g is None else g + tf.cast(p, g.dtype) for g, p in zip(gradients, pull)]
        return penalty, added

    def follow(self, step: tf.Tensor) -> None:
        """Moves the anchors to the weights before step t updates them, where they are `lagged`."""
        if self.lagged and self.is_active:
            self._assign_anchors()
            self.projection_index.assign(step)

    def swap(self, projection_index: int) -> None:
        """Starts projection k: the anchors become the current weights; O(weights)."""
        self._swap()
        self.projection_index.assign(projection_index)
        self.in_use = True

    def move_anchors(self, lagged: bool, first_projection_pull: bool = True) -> bool:
        """Sets `lagged` and `first_projection_pull`; returns whether a traced step has to be traced again."""
        before = self.lagged, self.first_projection_pull
        self.lagged, self.first_projection_pull = lagged, first_projection_pull
        return before != (lagged, first_projection_pull)

    def weights(self) -> list[np.ndarray]:
        """Returns the current weights, one array for each anchor, for `swap_to`."""
        return [variable.numpy() for variable in self._variables]

    def restore(self, weights: Sequence[np.ndarray]) -> None:
        """Sets the current weights to what `weights` returned; O(weights)."""
        for variable, value in zip(self._variables, weights):
            variable.assign(value)

    def swap_to(self, weights: Sequence[np.ndarray], projection_index: int) -> None:
        """Starts projection k with other weights as the anchors; O(weights)."""
        for anchor, value in zip(self.anchor_weights, weights):
            anchor.assign(value)
        self.projection_index.assign(projection_index)
        self.in_use = True

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
