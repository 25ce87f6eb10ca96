"""Detects infinite and NaN values: in the weights before training, in every step while training."""

from collections.abc import Mapping, Sequence

import tensorflow as tf

from profs_tf.distribution.collectives import PER_REPLICA

_SUBJECTS = {
    "embeddings": "The embeddings are",
    "loss": "The loss is",
    "proximal_penalty": "The proximal penalty is",
    "weights": "The weights are",
}
# What a step checks, in the order in which it computes them. A NaN in a weight may show in none of the
# others: a fused ReLU turns it into 0.
TERMS = tuple(_SUBJECTS)

_CURES = {
    "embedder": "The file or the initializer of these weights is to blame: load other ones.",
    "loss": "Make a new loss.",
    "optimizer": "It holds what an earlier step left behind: compile the model again with a new optimizer.",
}


class NonFiniteLossError(ArithmeticError):
    """A training step computed values that are infinite or NaN."""

    def __init__(self, term: str, step: int, suspects: Sequence[str] = ()):
        """Explains where training stopped.

        Args:
            term: One of `TERMS`.
            step: The first step, counted from 0, at which it was not finite.
            suspects: Options of the loss that may have caused it, as NAME=VALUE.
        """
        self.term, self.step = term, step
        others = "".join(f"change `{suspect}`, " for suspect in suspects)
        super().__init__(
            f"{_SUBJECTS[term]} not finite since step {step}. Training stopped; earlier "
            f"checkpoints are untouched. Lower the learning rate, {others}or look at the batches of that "
            "step and the one before."
        )


class FiniteWatch:
    """Remembers the first step at which each of `TERMS` was not finite. Not a tf.Module."""

    def __init__(self, steps: tf.Variable) -> None:
        """Takes the variable, int64 [3], for all terms but the weights; checkpoints hold that one."""
        self._steps = steps
        self._weights_step = tf.Variable(-1, trainable=False, dtype=tf.int64, **PER_REPLICA)

    def record(self, values: Sequence[tf.Tensor], weights: Sequence[tf.Variable], step: tf.Tensor) -> None:
        """Checks what a step computed and the weights that it left; part of the step.

        Args:
            values: Embeddings, loss and penalty.
            weights: The trained variables, updated.
            step: t.
        """
        finite = [tf.reduce_all(tf.math.is_finite(value)) for value in values]
        newly = ~tf.stack(finite) & (self._steps < 0)
        self._steps.assign(tf.where(newly, step, self._steps))
        newly = ~_are_finite(weights) & (self._weights_step < 0)
        self._weights_step.assign(tf.where(newly, step, self._weights_step))

    def check(self) -> None:
        """Raises NonFiniteLossError with the first term that was not finite, if any."""
        for term, step in zip(TERMS, [*self._steps.numpy(), self._weights_step.numpy()]):
            if step >= 0:
                raise NonFiniteLossError(term, int(step))

    def reset(self) -> None:
        """Forgets what an earlier training saw."""
        self._steps.assign([-1] * (len(TERMS) - 1))
        self._weights_step.assign(-1)


def check_finite_before_training(groups: Mapping[str, Sequence[tf.Variable]]) -> None:
    """Checks the state that training starts from, so that a later error need not be blamed on training.

    Args:
        groups: The variables to check of "embedder", "loss" and "optimizer".

    Raises:
        ValueError: If a value is infinite or NaN.
    """
    for argument, variables in groups.items():
        for variable in variables:
            # Of several replicas each holds its own moving statistics; training gives all the same weights.
            own = getattr(variable, "synchronization", None) == tf.VariableSynchronization.ON_READ
            checked = isinstance(variable, tf.Variable) and variable.dtype.is_floating and not own
            if checked and not _are_finite([variable]):
                raise ValueError(
                    f"`{argument}` must hold finite values before the first step, got NaN or infinity in "
                    f"{variable.name}. {_CURES[argument]}"
                )


def _are_finite(values: Sequence[tf.Variable]) -> tf.Tensor:
    """Returns whether all values are finite, bool scalar.

    Their sums tell it in one pass over memory, since NaN and infinities propagate. Half precision, whose sums
    could overflow, is added up in float32.
    """
    sums = [tf.reduce_sum(tf.cast(value, tf.float32) if value.dtype.size < 4 else value) for value in values]
    return tf.reduce_all([tf.math.is_finite(total) for total in sums])
