"""Hands what a training step computed back to a sampler that draws from it."""

import abc
from collections.abc import Mapping
from typing import Generic, Optional

import numpy as np
import tensorflow as tf

from profs_tf.models.profs_model import ProfsModel
from profs_tf.sampling.lagged.feed import Message
from profs_tf.sampling.lagged.history import LaggedHistory, Memory
from profs_tf.sampling.lagged.sampler import LaggedSampler


class StepLink(abc.ABC, Generic[Memory, Message]):
    """Hands over every step's message, and keeps what a checkpoint needs of them.

    Attributes:
        used_for: What the sampler does with the messages, as an error message says it.
        needed: What it needs of every step, likewise.
    """

    used_for: str
    needed: str

    def __init__(self, sampler: LaggedSampler[Memory, Message]) -> None:
        """Takes the sampler; `begin` prepares it."""
        self._sampler = sampler
        self._history: Optional[LaggedHistory[Memory, Message]] = None
        self._next_step = 0
        self._restored: Optional[Mapping[str, np.ndarray]] = None

    def state(self) -> dict[str, np.ndarray]:
        """Returns the history as arrays by name; empty before training started."""
        if self._history is None:
            return {}
        return {**self._history.arrays(), "next_step": np.asarray(self._next_step, np.int64)}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Takes over what `state` returned, at the next `begin`; an empty state means an empty memory."""
        self._restored = state

    @property
    def is_restored(self) -> bool:
        """Whether the next `begin` will take over a state."""
        return self._restored is not None

    def begin(self, model: tf.keras.Model, first_step: int, steps_per_execution: int) -> None:
        """Prepares model and sampler for training from a step on.

        Raises:
            ValueError: If the model or the number of steps in an execution does not go with the sampler, or
                the memory is not that of the steps before.
        """
        if not isinstance(model, ProfsModel):
            raise ValueError(
                f"`sampler` {self.used_for}, which needs a ProfsModel, got a {type(model).__name__}: "
                f"a stock model does not expose its {self.needed}."
            )
        if steps_per_execution != 1:
            raise ValueError(
                f"`steps_per_execution` must be 1 with a sampler that {self.used_for}, got "
                f"{steps_per_execution}: every step's {self.needed} are needed."
            )
        self._prepare(model)
        self._sampler.begin(first_step, self._history_before(first_step))
        # Training that ends in an error does not reach `end`.
        model.call_at_fit_end(self.end)

    def end(self) -> None:
        """Tells the sampler that no more steps follow; call it while the pipeline's iterator exists.

        The iterator cannot be destroyed while the sampler waits inside it.
        """
        self._sampler.feed.close()

    def step_begins(self) -> None:
        """Tells the sampler that a step runs, whose message will follow."""
        self._sampler.feed.is_stepping = True

    def step_ends(self, step: int) -> None:
        """Hands over what the step computed.

        Raises:
            ValueError: If `begin` was not called.
        """
        if self._history is None:
            raise ValueError(
                f"`step` must be of a training that `begin` prepared, got step {step} before it."
            )
        message = self._message(step)
        self._history.add(message)
        self._next_step = step + 1
        self._sampler.feed.put(message)
        self._sampler.feed.is_stepping = False

    def _history_before(self, first_step: int) -> LaggedHistory[Memory, Message]:
        """Returns the history of all steps before `first_step`."""
        fresh = self._history is None or self._restored is not None
        if self._history is None or self._restored is not None:
            self._history = self._new_history(first_step)
        if self._restored is not None:
            self._next_step = int(self._restored.get("next_step", first_step))
            if self._restored:
                self._history.restore(self._restored)
            self._restored = None
        elif not fresh and self._next_step == first_step - 1:
            # An error, such as a loss that is not finite, kept the last step from being handed over.
            self._history.add(self._missed_message(self._next_step))
            self._next_step = first_step
        if self._next_step != first_step:
            raise ValueError(
                f"`sampler` must know all steps before {first_step}, got a memory of the steps before "
                f"{self._next_step}. Pass the saved state to `ProfsCallback.restore`, or `{{}}` to start "
                "with an empty memory."
            )
        return self._history

    @abc.abstractmethod
    def _prepare(self, model: ProfsModel) -> None:
        """Has the model keep what `_message` reads."""

    @abc.abstractmethod
    def _new_history(self, first_step: int) -> LaggedHistory[Memory, Message]:
        """Returns the history before a first step."""

    @abc.abstractmethod
    def _message(self, step: int) -> Message:
        """Returns what the step that just ended computed, as tensors.

        On a GPU the sampler's thread then waits for their values, not this one.
        """

    @abc.abstractmethod
    def _missed_message(self, step: int) -> Message:
        """Returns what stands for a step that was not handed over."""
