"""Adam with a learning rate of its own for the head and for the variables that a loss owns.

Paper, section 5.2: the randomly initialised linear head learns with ten times the
learning rate of the pretrained backbone. Multiplying the head's gradients would do nothing, since Adam
divides by their size; it is the update that is multiplied here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

import tensorflow as tf

from profs_tf.models.embedder import HEAD_LAYER, head_variables


class _Multipliers:
    """The multipliers, by key of variable, and that of the variable being updated.

    Held apart from the optimiser's own attributes because Keras would track the variables there and write
    them to
    checkpoints: multipliers are configuration, and a restored one would overrule what the user asks for now.
    """

    def __init__(self) -> None:
        self.by_key: dict[str, tf.Variable] = {}
        self.names: dict[str, str] = {}
        self.unbound: dict[str, float] = {}  # by name, for variables not seen yet
        self.updated_without: set[str] = set()
        self.by_default: set[str] = set()
        self.current: Optional[tf.Variable] = None


@tf.keras.utils.register_keras_serializable("profs_tf")
class HeadAdam(tf.keras.optimizers.Adam):
    """``tf.keras.optimizers.Adam`` in which chosen variables learn faster or slower than the rest.

    A variable with multiplier c is updated as Adam (Kingma and Ba, 2015) with learning rate ``c *
    learning_rate`` would. ``learning_rate`` reads and sets the base rate, so that schedules and callbacks
    scale all rates together. Moments, bias correction, clipping and weight decay are Keras's own; decoupled
    weight decay uses the base rate for every variable. Checkpoints hold what those of Adam hold, and the two
    read each other's.

    Args:
        *args: As for ``tf.keras.optimizers.Adam``.
        multipliers: Multipliers by name of variable, such as ``{"head/kernel:0": 10.0}``, bound when the
            variables are first seen. It is what a configuration holds; programs call ``set_multiplier``,
            which needs no names.
        **kwargs: As for ``tf.keras.optimizers.Adam``.

    Raises:
        ValueError: If a multiplier is negative or not finite; when the variables are first seen, if a name is
            not that of exactly one of them.
    """

    def __init__(self, *args: Any, multipliers: Optional[Mapping[str, float]] = None, **kwargs: Any) -> None:
        self._multipliers = _Multipliers()
        super().__init__(*args, **kwargs)
        for name, multiplier in (multipliers or {}).items():
            self._multipliers.unbound[name] = _checked(multiplier)

    @property
    def learning_rate(self) -> Union[tf.Variable, tf.Tensor]:
        """The base learning rate; while a variable is updated, that variable's own."""
        rate = super().learning_rate
        return rate if self._multipliers.current is None else rate * self._multipliers.current

    @learning_rate.setter
    def learning_rate(
        self, rate: Union[float, tf.Tensor, tf.keras.optimizers.schedules.LearningRateSchedule]
    ) -> None:
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
        _checked(multiplier)
        for variable in variables:
            key = self._var_key(variable)
            if key in self._multipliers.updated_without:
                raise ValueError(
                    "`variables` must get their first multiplier before their first update, got "
                    f"{variable.name}, which has been updated. Set it right after making the optimiser."
                )
            self._assign(key, multiplier)
            self._multipliers.names[key] = variable.name
            self._multipliers.by_default.discard(key)

    def set_default_rate(self, variables: Sequence[tf.Variable], rate: float) -> None:
        """Is `set_learning_rate` for those of ``variables`` that no other call or argument gave a multiplier.

        A multiplier from an earlier call of this method gives way to the new one.
        """
        chosen = self._multipliers
        free = []
        for variable in variables:
            key = self._var_key(variable)
            if key in chosen.by_default or not (key in chosen.by_key or variable.name in chosen.unbound):
                free.append(variable)
        if free:
            self.set_learning_rate(free, rate)
            chosen.by_default.update(self._var_key(variable) for variable in free)

    def set_learning_rate(self, variables: Sequence[tf.Variable], rate: float) -> None:
        """Makes ``variables`` learn with ``rate`` now, and from now on in proportion to the base rate.

        Args:
            variables: As for ``set_multiplier``.
            rate: Learning rate >= 0.

        Raises:
            ValueError: As for ``set_multiplier``; also if the base rate is 0 at this moment, as in a warm-up,
                where the proportion is undefined.
        """
        base = self._learning_rate
        if isinstance(base, tf.keras.optimizers.schedules.LearningRateSchedule):
            base = base(self.iterations)
        # As a tensor: of a variable with several replicas Python can make no number.
        base = float(tf.convert_to_tensor(base))
        if base == 0:
            raise ValueError(
                f"`rate` must be set while the base learning rate is > 0, got {rate} at base rate 0. "
                "Use `set_multiplier(variables, multiplier)`; for a loss's variables before `compile`."
            )
        self.set_multiplier(variables, rate / base)

    def build(self, var_list: Sequence[tf.Variable]) -> None:
        """Creates the moments for ``var_list`` and binds multipliers that were given by name."""
        unbound, self._multipliers.unbound = self._multipliers.unbound, {}
        for name, multiplier in unbound.items():
            named = [variable for variable in var_list if variable.name == name]
            if len(named) != 1:
                raise ValueError(
                    f"`multipliers` must name single variables, got {name!r}, which names {len(named)} of: "
                    f"{', '.join(variable.name for variable in var_list)}."
                )
            self.set_multiplier(named, multiplier)
        super().build(var_list)

    def update_step(self, gradient: Union[tf.Tensor, tf.IndexedSlices], variable: tf.Variable) -> None:
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

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor, the multipliers by name of variable.

        Raises:
            ValueError: If two variables of one name have different multipliers.
        """
        multipliers = dict(self._multipliers.unbound)
        for key, name in self._multipliers.names.items():
            value = float(tf.convert_to_tensor(self._multipliers.by_key[key]))
            if multipliers.setdefault(name, value) != value:
                raise ValueError(
                    f"`multipliers` must be told apart by the variables' names, got {name!r} with "
                    f"{multipliers[name]} and with {value}. Give the variables different names."
                )
        return {**super().get_config(), "multipliers": multipliers}

    def _assign(self, key: str, multiplier: float) -> None:
        known = self._multipliers.by_key
        if key in known:
            known[key].assign(multiplier)
        else:
            with tf.init_scope():
                known[key] = tf.Variable(float(multiplier), trainable=False, name="learning_rate_multiplier")


def _checked(multiplier: float) -> float:
    if not 0 <= multiplier < float("inf"):
        raise ValueError(f"`multiplier` must be a finite number >= 0, got {multiplier}.")
    return multiplier


def head_adam(
    embedder: tf.keras.Model,
    learning_rate: Union[float, tf.keras.optimizers.schedules.LearningRateSchedule] = 1e-4,
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
        beta_1: Decay of the first moment.
        beta_2: Decay of the second moment: the paper's, where Keras's default is 0.999.
        epsilon: Added to the root of the second moment; Keras's default.
        head_layer: The head: a layer, the name of one, or a list of variables.
        **adam_options: Further arguments of ``tf.keras.optimizers.Adam``, such as ``clipnorm``.

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
