"""Adam with a learning rate of its own for the head and for the variables that a loss owns.

Paper, section 5 (implementation details): the randomly initialised linear head learns with ten times the
learning rate of the pretrained backbone. Multiplying the head's gradients would do nothing, since Adam
divides by their size; it is the update that is multiplied here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Union

import tensorflow as tf

from profs_tf.embedder import HEAD_LAYER, head_variables


class _Multipliers:
    """The multipliers by variable key, and that of the variable being updated.

    Held outside the optimiser's own attributes because Keras would track the variables there and write them
    to
    checkpoints: multipliers are configuration, and a restored one would overrule what the user asks for now.
    """

    def __init__(self):
        self.by_key = {}
        self.updated_without = set()
        self.current = None


@tf.keras.utils.register_keras_serializable("profs_tf")
class HeadAdam(tf.keras.optimizers.Adam):
    """``tf.keras.optimizers.Adam`` in which chosen variables learn faster or slower than the rest.

    A variable with multiplier c is updated as Adam (Kingma and Ba, 2015) with learning rate ``c *
    learning_rate`` would. ``learning_rate`` reads and sets the base rate, so that schedules and callbacks
    scale all rates together. Moments, bias correction, clipping and weight decay are Keras's own; decoupled
    weight decay uses the base rate for every variable. Checkpoints hold what those of Adam hold, and the two
    read each other's.
    """

    def __init__(self, *args, **kwargs):
        self._multipliers = _Multipliers()
        super().__init__(*args, **kwargs)

    @property
    def learning_rate(self):
        """The base learning rate."""
        rate = super().learning_rate
        return rate if self._multipliers.current is None else rate * self._multipliers.current

    @learning_rate.setter
    def learning_rate(self, rate):
        tf.keras.optimizers.Adam.learning_rate.fset(self, rate)

    def set_multiplier(self, variables: Sequence[tf.Variable], multiplier: float) -> None:
        """Makes ``variables`` learn with ``multiplier`` times the base learning rate.

        Args:
            variables: Variables that this optimiser updates or will update.
            multiplier: Number >= 0. May be changed at any time, also between the steps of a compiled loop.

        Raises:
            ValueError: If ``multiplier`` is negative or not finite, or a variable that had no multiplier has
                been updated already: its update may be compiled without one.
        """
        if not 0 <= multiplier < float("inf"):
            raise ValueError(f"`multiplier` must be a finite number >= 0, got {multiplier}.")
        for variable in variables:
            key = self._var_key(variable)
            if key in self._multipliers.updated_without:
                raise ValueError(
                    f"`variables` must get their first multiplier before their first update, got "
                    f"{variable.name}, which has been updated. Set it right after making the optimiser."
                )
            self._assign_multiplier(key, multiplier)

    def set_learning_rate(self, variables: Sequence[tf.Variable], rate: float) -> None:
        """Makes ``variables`` learn with ``rate`` now, and from now on in proportion to the base rate.

        Args:
            variables: As for ``set_multiplier``.
            rate: Learning rate >= 0.

        Raises:
            ValueError: If the base rate is 0 at this moment, as in a warm-up: the ratio is then undefined.
        """
        base = self._learning_rate
        if isinstance(base, tf.keras.optimizers.schedules.LearningRateSchedule):
            base = base(self.iterations)
        base = float(base)
        if base == 0:
            raise ValueError(
                f"`rate` must be set while the base learning rate is > 0, got {rate}. Use set_multiplier."
            )
        self.set_multiplier(variables, rate / base)

    def update_step(self, gradient, variable):
        """Updates ``variable`` by one step of Adam with its own learning rate."""
        key = self._var_key(variable)
        multiplier = self._multipliers.by_key.get(key)
        if multiplier is None:
            self._multipliers.updated_without.add(key)
        self._multipliers.current = multiplier
        try:
            super().update_step(gradient, variable)
        finally:
            self._multipliers.current = None

    def _assign_multiplier(self, key, multiplier: float) -> None:
        known = self._multipliers.by_key
        if key in known:
            known[key].assign(multiplier)
        else:
            with tf.init_scope():
                known[key] = tf.Variable(float(multiplier), trainable=False, name="learning_rate_multiplier")


def head_adam(
    embedder: tf.keras.Model,
    learning_rate: Union[float, tf.keras.optimizers.schedules.LearningRateSchedule] = 1e-4,
    *,
    head_multiplier: float = 10.0,
    beta_1: float = 0.9,
    beta_2: float = 0.99,
    epsilon: float = 1e-7,
    head_layer: Union[str, tf.keras.layers.Layer, Sequence[tf.Variable], None] = None,
    **adam_options,
) -> HeadAdam:
    """Adam for an embedder whose head learns ``head_multiplier`` times faster.

    Args:
        embedder: The Keras model to train, built.
        learning_rate: Base rate, or a schedule of it. The paper takes 1e-4 for SOP, 1e-5 for CUB and Cars196.
        head_multiplier: The head's rate over the base rate.
        beta_1: Decay of the first moment.
        beta_2: Decay of the second moment. Differs from Keras's 0.999: the paper's is 0.99.
        epsilon: Added to the root of the second moment; Keras's value.
        head_layer: The head: a layer, its name, or a list of variables. Default: the layer named "head".
        **adam_options: Further arguments of ``tf.keras.optimizers.Adam``, such as ``clipnorm``.

    Raises:
        ValueError: If the head is not found, or a value is out of range.
    """
    optimizer = HeadAdam(learning_rate, beta_1=beta_1, beta_2=beta_2, epsilon=epsilon, **adam_options)
    head = HEAD_LAYER if head_layer is None else head_layer
    if isinstance(head, (str, tf.keras.layers.Layer)):
        head = head_variables(embedder, head)
    optimizer.set_multiplier(head, head_multiplier)
    return optimizer
