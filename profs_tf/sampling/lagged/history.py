"""The lag: batch t uses what the steps up to t - lag computed, no more and no fewer."""

import abc
import collections
from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

import numpy as np

from profs_tf.sampling.lagged.feed import Message


class StepMemory(Protocol):
    """What is kept of the steps."""

    def copy(self: "Memory") -> "Memory":
        """Returns an independent copy."""


Memory = TypeVar("Memory", bound=StepMemory)


class LaggedHistory(abc.ABC, Generic[Memory, Message]):
    """The memory that the next batch is drawn from, and the messages of later steps.

    The trainer keeps one for its checkpoints, because the sampler's memory runs ahead of training by a few
    batches.

    Attributes:
        memory: What is kept of the messages that the next batch may use.
        pending: The messages after these, at most ``lag - 1``.
    """

    def __init__(self, memory: Memory, lag: int) -> None:
        """Starts without messages."""
        self.memory = memory
        self.pending: collections.deque[Message] = collections.deque()
        self._lag = lag

    def add(self, message: Message) -> None:
        """Adds the message of the step that was just taken.

        Raises:
            ValueError: If what the memory takes in is not valid.
        """
        self.pending.append(message)
        # The next batch, of message.step + 1, uses the messages up to message.step + 1 - lag.
        while self.pending and self.pending[0].step <= message.step + 1 - self._lag:
            self.store(self.memory, self.pending.popleft())

    @staticmethod
    @abc.abstractmethod
    def store(memory: Memory, message: Message) -> None:
        """Takes a message into a memory."""

    @abc.abstractmethod
    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the state as arrays by name, for a checkpoint."""

    @abc.abstractmethod
    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restores what `arrays` returned."""
