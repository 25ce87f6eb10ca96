"""The lag of mining: batch t uses the embeddings of all steps up to t - lag, no more and no fewer.

Shapes: L classes, C classes in a batch, D embedding dimension.
"""

import collections
from collections.abc import Mapping

import numpy as np

from profs_tf.sampling.hncm.feed import StepEmbeddings
from profs_tf.sampling.hncm.memory import ClassMemory


class LaggedMemory:
    """The memory that the next batch is mined from, and the messages of later steps.

    The trainer keeps one for its checkpoints, because the sampler's memory runs ahead of training by a few
    batches.

    Attributes:
        memory: A `ClassMemory` of the messages that the next batch may use.
        pending: The messages after these, at most ``lag - 1``.
    """

    def __init__(self, num_classes: int, embedding_dim: int, lag: int) -> None:
        """Creates the state before the first step, with an empty memory."""
        self.memory = ClassMemory(num_classes, embedding_dim)
        self.pending: collections.deque[StepEmbeddings] = collections.deque()
        self._lag = lag

    def add(self, message: StepEmbeddings) -> None:
        """Adds the message of the step that was just taken; O(C D), with prototypes O(L).

        Raises:
            ValueError: If embeddings that the memory takes in are not finite.
        """
        self.pending.append(message)
        # The next batch, of message.step + 1, is mined from the messages up to message.step + 1 - lag.
        while self.pending and self.pending[0].step <= message.step + 1 - self._lag:
            store(self.memory, self.pending.popleft())

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the state as arrays by name, for a checkpoint.

        Of 4 L D bytes and a little more; with prototypes up to ``lag`` times that.
        """
        arrays = {"embeddings": self.memory.embeddings, "seen": self.memory.seen}
        for position, message in enumerate(self.pending):
            arrays[f"step_{position}"] = np.asarray(message.step, np.int64)
            if message.classes is not None:
                arrays[f"classes_{position}"] = np.asarray(message.classes)
            arrays[f"embeddings_{position}"] = np.asarray(message.embeddings)
        return arrays

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restores what `arrays` returned.

        Raises:
            ValueError: If the number of classes or the dimension differs, or embeddings are not finite.
        """
        shape = self.memory.embeddings.shape
        if arrays["embeddings"].shape != shape:
            raise ValueError(f"The memory must have shape {shape}, got {arrays['embeddings'].shape}.")
        self.memory = ClassMemory(*shape)
        seen = np.flatnonzero(arrays["seen"])
        self.memory.update(seen, arrays["embeddings"][seen])
        self.pending = collections.deque()
        while f"step_{len(self.pending)}" in arrays:
            position = len(self.pending)
            self.pending.append(
                StepEmbeddings(
                    int(arrays[f"step_{position}"]),
                    arrays.get(f"classes_{position}"),
                    arrays[f"embeddings_{position}"],
                )
            )


def store(memory: ClassMemory, message: StepEmbeddings) -> None:
    """Takes a step's embeddings, or all prototypes, into a memory."""
    if message.classes is None:
        memory.replace(message.embeddings)
    else:
        memory.update(np.asarray(message.classes), np.asarray(message.embeddings))
