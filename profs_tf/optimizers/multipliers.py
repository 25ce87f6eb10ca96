"""The learning-rate multipliers of single variables."""

from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf


class Multipliers:
    """One multiplier for each variable that an optimizer updates, 1 unless chosen.

    Not a tf.Module, and kept out of checkpoints: multipliers are configuration, and a restored one would
    overrule what the program asks for now. They are TensorFlow variables all the same, so that a compiled
    step reads a changed one.
    """

    def __init__(self, by_name: Mapping[str, float], key_of: Callable[[tf.Variable], str]) -> None:
        """Takes multipliers by name of variable, which `bind` applies, and the identity of a variable."""
        self._key_of = key_of
        self._by_name = {name: _checked(multiplier) for name, multiplier in by_name.items()}
        self._values: dict[str, tf.Variable] = {}
        self._names: dict[str, str] = {}
        self._defaults: set[str] = set()

    def set(self, variable: tf.Variable, multiplier: float) -> None:
        """Chooses a multiplier; raises ValueError unless it is finite and >= 0."""
        key = self._key_of(variable)
        self._assign(key, _checked(multiplier))
        self._names[key] = variable.name
        self._defaults.discard(key)

    def mark_default(self, variables: Sequence[tf.Variable]) -> None:
        """Has the multipliers of variables count as not chosen, so that another default replaces them."""
        self._defaults.update(self._key_of(variable) for variable in variables)

    def is_chosen(self, variable: tf.Variable) -> bool:
        """Returns whether the variable was given a multiplier, by name or itself, that is no default."""
        key = self._key_of(variable)
        return variable.name in self._by_name or (key in self._names and key not in self._defaults)

    def of(self, variable: tf.Variable) -> tf.Variable:
        """Returns the multiplier of a variable that `bind` saw."""
        return self._values[self._key_of(variable)]

    def bind(self, variables: Sequence[tf.Variable]) -> None:
        """Gives every variable its multiplier, those chosen by name theirs.

        Raises:
            ValueError: If a name is not that of exactly one of the variables.
        """
        by_name, self._by_name = self._by_name, {}
        for name, multiplier in by_name.items():
            named = [variable for variable in variables if variable.name == name]
            if len(named) != 1:
                raise ValueError(
                    f"`multipliers` must name single variables, got {name!r}, which names {len(named)} of: "
                    f"{', '.join(variable.name for variable in variables)}."
                )
            self.set(named[0], multiplier)
        for variable in variables:
            if self._key_of(variable) not in self._values:
                self._assign(self._key_of(variable), 1.0)

    def by_name(self) -> dict[str, float]:
        """Returns the multipliers given so far by name of variable.

        Raises:
            ValueError: If two variables of one name have different multipliers.
        """
        multipliers = dict(self._by_name)
        for key, name in self._names.items():
            value = float(tf.convert_to_tensor(self._values[key]))
            if multipliers.setdefault(name, value) != value:
                raise ValueError(
                    f"`multipliers` must be told apart by the variables' names, got {name!r} with "
                    f"{multipliers[name]} and with {value}. Give the variables different names."
                )
        return multipliers

    def _assign(self, key: str, multiplier: float) -> None:
        if key in self._values:
            self._values[key].assign(multiplier)
            return
        with tf.init_scope():
            self._values[key] = tf.Variable(multiplier, trainable=False, name="learning_rate_multiplier")


def _checked(multiplier: float) -> float:
    if not 0 <= multiplier < float("inf"):
        raise ValueError(f"`multiplier` must be a finite number >= 0, got {multiplier}.")
    return float(multiplier)
