"""A queue that carries what each step computed from the trainer's thread to the sampler's."""

import collections
import threading
import time
from typing import Generic, Optional, Protocol, TypeVar

_POLL_SECONDS = 1.0


class StepMessage(Protocol):
    """What a step computed."""

    @property
    def step(self) -> int:
        """Its t."""


Message = TypeVar("Message", bound=StepMessage)


class StalledTrainingError(RuntimeError):
    """What a step computed did not arrive in time."""


class StepFeed(Generic[Message]):
    """Messages of consecutive steps; the trainer puts them and the sampler takes them, each in its thread.

    Waiting for a message times out only while the trainer is in a step (`is_stepping`): between steps it may
    evaluate for hours.

    Attributes:
        is_stepping: Whether the trainer is in a step; the trainer sets it.
        next_step: The step whose message `take` returns next.
    """

    def __init__(self, next_step: int, stall_seconds: float = 600.0) -> None:
        """Creates an empty queue.

        Args:
            next_step: The step of the first message.
            stall_seconds: How long a step may take before `take` raises StalledTrainingError.
        """
        self.is_stepping = True
        self.next_step = next_step
        self._next_put = next_step
        self._messages: collections.deque[Message] = collections.deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._stall_seconds = stall_seconds

    def put(self, message: Message) -> None:
        """Appends a step's message; never waits.

        Raises:
            ValueError: If it is not the message of the next step.
        """
        with self._changed:
            if message.step != self._next_put:
                raise ValueError(f"`message` must be of step {self._next_put}, got step {message.step}.")
            self._next_put += 1
            self._messages.append(message)
            self._changed.notify_all()

    def take(self) -> Optional[Message]:
        """Waits for the next message and returns it; None once the feed is closed.

        Raises:
            StalledTrainingError: If it does not arrive within `stall_seconds` of a step.
        """
        waited = 0.0
        with self._changed:
            while not self._messages:
                if self._is_closed:
                    return None
                begin = time.monotonic()
                self._changed.wait(_POLL_SECONDS)
                waited += time.monotonic() - begin if self.is_stepping else 0.0
                if waited > self._stall_seconds:
                    raise StalledTrainingError(
                        f"Nothing of step {self._next_put} arrived within {self._stall_seconds:.0f} s. "
                        "With this sampler, `fit` needs ProfsCallback with it."
                    )
            self.next_step += 1
            return self._messages.popleft()

    def close(self) -> None:
        """Ends all waiting when training is over."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
