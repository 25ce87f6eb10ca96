"""A sampler whose batches depend on what earlier steps computed."""

import abc
import itertools
from collections.abc import Callable, Iterator
from typing import Any, Generic, Optional

from profs_tf.sampling.batch_sampler import BatchIndices, BatchSampler
from profs_tf.sampling.lagged.feed import Message, StepFeed
from profs_tf.sampling.lagged.history import LaggedHistory, Memory
from profs_tf.utils.checks import check_count


class LaggedSampler(BatchSampler, abc.ABC, Generic[Memory, Message]):
    """The batch of step t is a pure function of the seed, of t, and of what the steps up to t - lag computed.

    Two runs with one seed are equal bit for bit, however far the pipeline runs ahead; with a larger lag it
    can run further ahead, on older values.

    The callback starts each training with `begin`, puts every step's message into `feed`, and ends with
    `feed.close`.

    Attributes:
        lag: Steps between the newest message used and the batch drawn from it, at least 1.
        feed: The queue of the current training.
    """

    def __init__(self, *arguments: Any, lag: int, **options: Any) -> None:
        """Prepares the draws.

        Args:
            *arguments: As for `BatchSampler`.
            lag: Steps between the newest message used and the batch drawn from it, at least 1.
            **options: As for `BatchSampler`.

        Raises:
            ValueError: If `lag` is no whole number of at least 1, or as `BatchSampler`.
        """
        super().__init__(*arguments, **options)
        self.lag = check_count("lag", lag)
        self.feed: StepFeed[Message] = StepFeed(0)
        self._memory: Optional[Memory] = None
        self._store: Callable[[Memory, Message], None]

    def begin(
        self, first_step: int, history: LaggedHistory[Memory, Message], stall_seconds: float = 600.0
    ) -> None:
        """Starts at a step, with what the steps before it computed.

        Args:
            first_step: The step of the first batch.
            history: The state after the step before it.
            stall_seconds: How long a training step may take.
        """
        self.first_step = first_step
        self._memory, self._store = history.memory.copy(), history.store
        first_pending = history.pending[0].step if history.pending else first_step
        self.feed = StepFeed(first_pending, stall_seconds)
        for message in history.pending:
            self.feed.put(message)

    def iterate_from(self, first_step: int = 0) -> Iterator[BatchIndices]:
        """Yields the batches from `first_step` on; waits for the messages that each is drawn from.

        Ends when the feed is closed.

        Raises:
            ValueError: If `begin` was not called, or with another step; if a message is not valid.
            StalledTrainingError: If messages do not arrive.
        """
        if self._memory is None or first_step != self.first_step:
            raise ValueError(
                f"`first_step` must be the step that training began with, got {first_step}. "
                "Train with ProfsCallback and this sampler, which begins it."
            )
        # The next training replaces both, perhaps before this iteration has ended.
        memory, feed = self._memory, self.feed
        for step in itertools.count(first_step):
            while feed.next_step <= step - self.lag:
                message = feed.take()
                if message is None:
                    return
                self._store(memory, message)
            yield self._draw(step, memory)

    @abc.abstractmethod
    def _draw(self, step: int, memory: Memory) -> BatchIndices:
        """Returns the batch of a step, by what the steps up to step - lag left in the memory."""

    def batch(self, step: int) -> BatchIndices:
        """Not for these batches, which depend on more than their step.

        Raises:
            TypeError: Always.
        """
        raise TypeError(f"Batch {step} depends on what earlier steps computed. Iterate over the sampler.")
