"""A queue that carries each step's embeddings from the trainer's thread to the sampler's.

Shapes: L classes, C classes in a batch, D embedding dimension.
"""

import collections
import threading
import time
from typing import TYPE_CHECKING, NamedTuple, Optional, Union

import numpy as np

if TYPE_CHECKING:
    import tensorflow as tf

_POLL_SECONDS = 1.0


class StepEmbeddings(NamedTuple):
    """The embeddings that a step computed for its representatives, or the loss's prototypes after the step.

    Attributes:
        step: t.
        classes: int64 [C], or None for all L.
        embeddings: float32 [C, D], or [L, D].
    """

    step: int
    classes: Union[np.ndarray, "tf.Tensor", None]
    embeddings: Union[np.ndarray, "tf.Tensor"]


class StalledTrainingError(RuntimeError):
    """The embeddings of a step did not arrive in time."""


class EmbeddingFeed:
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
        self._messages: collections.deque[StepEmbeddings] = collections.deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._stall_seconds = stall_seconds

    def put(self, message: StepEmbeddings) -> None:
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

    def take(self) -> Optional[StepEmbeddings]:
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
                        f"No embeddings of step {self._next_put} arrived within {self._stall_seconds:.0f} s. "
                        "With class mining, `fit` needs ProfsCallback with this sampler."
                    )
            self.next_step += 1
            return self._messages.popleft()

    def close(self) -> None:
        """Ends all waiting when training is over."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
