"""Adam with a multiple of the learning rate for the head and for the variables that a loss owns.

Paper, section 5.2: the randomly initialized linear head learns with ten times the learning rate of the
pretrained backbone. Multiplying the head's gradients would do nothing, since Adam divides by their size:
the multiplier scales the update.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

import tensorflow as tf

from profs_tf.models.head import HEAD_LAYER, head_variables
from profs_tf.optimizers.adam_rule import adam_update
from profs_tf.optimizers.multipliers import Multipliers
from profs_tf.optimizers.reference_rate import LearningRate, check_reference, reference_of
from profs_tf.utils.legacy_keras import check_keras_2


@tf.keras.utils.register_keras_serializable("profs_tf")
class HeadAdam(tf.keras.optimizers.Adam):
    """``tf.keras.optimizers.Adam`` in which chosen variables learn faster or slower than the rest.

    A variable with multiplier c is updated as by Adam with learning rate ``c * learning_rate``. The property
    ``learning_rate`` is the base rate, always: schedules and callbacks scale all rates together. Decoupled
    weight decay uses the base rate; a variable with multiplier 0 stays as it is. Checkpoints hold what those
    of Adam hold; the two read each other's.

    Args:
        learning_rate: The base rate, or a schedule of it.
        multipliers: Multipliers by name of variable, such as ``{"head/kernel:0": 10.0}``, bound when the
            variables are first seen. Configurations hold them; programs call ``set_multiplier``.
        reference_learning_rate: What divides an absolute rate (``set_learning_rate``) to give a multiplier.
            None: the constant rate, or the peak of a schedule of Keras; a schedule of your own needs it.
        **adam_options: As for ``tf.keras.optimizers.Adam``.

    Raises:
        ValueError: If a rate or multiplier is negative or not finite, or ``reference_learning_rate`` is not
            positive; on first seeing the variables, if a name is not that of exactly one.
    """

    def __init__(
        self,
        learning_rate: LearningRate = 1e-3,
        *,
        multipliers: Optional[Mapping[str, float]] = None,
        reference_learning_rate: Optional[float] = None,
        **adam_options: Any,
    ) -> None:
        check_keras_2("learning_rate", learning_rate)
        self._multipliers = Multipliers(multipliers or {}, self._var_key)
        if isinstance(learning_rate, numbers.Real) and not 0.0 <= float(learning_rate) < float("inf"):
            raise ValueError(f"`learning_rate` must be >= 0 and finite, got {learning_rate}.")
        super().__init__(learning_rate, **adam_options)
        if reference_learning_rate is not None and not 0 < reference_learning_rate < float("inf"):
            raise ValueError(f"`reference_learning_rate` must be > 0, got {reference_learning_rate}.")
        self._given_reference = reference_learning_rate
        self._reference = reference_of(self._learning_rate)

    @tf.keras.optimizers.Adam.learning_rate.setter
    def learning_rate(self, rate: LearningRate) -> None:
        """Sets the base rate, and with it the reference of absolute rates set later."""
        tf.keras.optimizers.Adam.learning_rate.fset(self, rate)
        self._reference = reference_of(rate)

    def set_multiplier(self, variables: Sequence[tf.Variable], multiplier: float) -> None:
        """Makes ``variables`` learn with ``multiplier``, a finite number >= 0, times the base rate."""
        for variable in variables:
            self._multipliers.set(variable, multiplier)

    def set_learning_rate(self, variables: Sequence[tf.Variable], rate: float) -> None:
        """Makes ``variables`` learn with ``rate`` (>= 0) where the base rate is the reference rate.

        Raises:
            ValueError: If ``rate`` is out of range, or there is no reference rate > 0.
        """
        reference = self._reference if self._given_reference is None else self._given_reference
        self.set_multiplier(variables, rate / check_reference(reference, rate))

    def set_default_rate(self, variables: Sequence[tf.Variable], rate: float) -> None:
        """Is `set_learning_rate` for those of ``variables`` without a multiplier from elsewhere."""
        free = [variable for variable in variables if not self._multipliers.is_chosen(variable)]
        if free:
            self.set_learning_rate(free, rate)
            self._multipliers.mark_default(free)

    def multiplier_of(self, variable: tf.Variable) -> float:
        """Returns the multiplier of a variable that the optimizer has been built with."""
        return float(tf.convert_to_tensor(self._multipliers.of(variable)))

    def build(self, var_list: Sequence[tf.Variable]) -> None:
        """Creates the moments for ``var_list`` and binds multipliers that were given by name."""
        self._multipliers.bind(var_list)
        super().build(var_list)

    def update_step(self, gradient: Union[tf.Tensor, tf.IndexedSlices], variable: tf.Variable) -> None:
        """Updates ``variable`` by one step of Adam with its own learning rate, after its decay."""
        multiplier = self._multipliers.of(variable)
        if self.weight_decay is not None and self._use_weight_decay(variable):
            rate = tf.cast(self.learning_rate * tf.sign(multiplier), variable.dtype)
            variable.assign_sub(variable * tf.cast(self.weight_decay, variable.dtype) * rate)
        slots = [self._momentums, self._velocities] + ([self._velocity_hats] if self.amsgrad else [])
        moments = [slot[self._index_dict[self._var_key(variable)]] for slot in slots]
        new_moments, decrement = adam_update(
            gradient,
            moments,
            rate=tf.cast(self.learning_rate * multiplier, variable.dtype),
            step=tf.cast(self.iterations + 1, variable.dtype),
            beta_1=self.beta_1,
            beta_2=self.beta_2,
            epsilon=self.epsilon,
        )
        for moment, value in zip(moments, new_moments):
            moment.assign(value)
        variable.assign_sub(decrement)

    def _apply_weight_decay(self, variables: Sequence[tf.Variable]) -> None:
        """Does nothing: Keras would decay variables whose multiplier is 0, `update_step` does not."""

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments; raises ValueError if one name has several multipliers."""
        own = {"multipliers": self._multipliers.by_name(), "reference_learning_rate": self._given_reference}
        return {**super().get_config(), **own}


def head_adam(
    embedder: tf.keras.Model,
    learning_rate: LearningRate = 1e-4,
    *,
    head_multiplier: float = 10.0,
    beta_1: float = 0.9,
    beta_2: float = 0.99,
    epsilon: float = 1e-7,
    head_layer: Union[str, tf.keras.layers.Layer, Sequence[tf.Variable]] = HEAD_LAYER,
    **adam_options: Any,
) -> HeadAdam:
    """Makes Adam for an embedder whose head learns ``head_multiplier`` times faster than the rest.

    Args:
        embedder: The Keras model to train, built.
        learning_rate: Base rate, or a schedule of it. The paper takes 1e-4 for SOP, 1e-5 for CUB and Cars196.
        head_multiplier: The head's rate over the base rate; 1 treats the head as the rest.
        beta_1: As for Adam.
        beta_2: As for Adam; the paper's, where Keras's default is 0.999.
        epsilon: As for Adam.
        head_layer: The head: a layer, the name of one, or a list of variables.
        **adam_options: Further arguments of `HeadAdam`, such as ``clipnorm``.

    Raises:
        ValueError: If the head is not found or has no variables, or ``head_multiplier`` is negative or not
            finite.
    """
    optimizer = HeadAdam(learning_rate, beta_1=beta_1, beta_2=beta_2, epsilon=epsilon, **adam_options)
    if isinstance(head_layer, (str, tf.keras.layers.Layer)):
        head = head_variables(embedder, head_layer)
    else:
        head = list(head_layer)
        if not head:
            raise ValueError("`head_layer` must hold at least one variable, got an empty list.")
    optimizer.set_multiplier(head, head_multiplier)
    return optimizer
