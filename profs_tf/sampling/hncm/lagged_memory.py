"""The lag of mining: batch t uses the embeddings of all steps up to t - lag, no more and no fewer.

Shapes: L classes, C classes in a batch, D embedding dimension.
"""

import collections
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Union

import numpy as np

from profs_tf.sampling.hncm.memory import ClassMemory
from profs_tf.sampling.lagged.history import LaggedHistory

if TYPE_CHECKING:
    import tensorflow as tf


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


class LaggedMemory(LaggedHistory[ClassMemory, StepEmbeddings]):
    """The memory that the next batch is mined from, and the messages of later steps."""

    def __init__(self, num_classes: int, embedding_dim: int, lag: int) -> None:
        """Creates the state before the first step, with an empty memory."""
        super().__init__(ClassMemory(num_classes, embedding_dim), lag)

    @staticmethod
    def store(memory: ClassMemory, message: StepEmbeddings) -> None:
        """Takes a step's embeddings, or all prototypes, into a memory; O(C D), with prototypes O(L).

        Raises:
            ValueError: If embeddings are not finite.
        """
        if message.classes is None:
            memory.replace(message.embeddings)
        else:
            memory.update(np.asarray(message.classes), np.asarray(message.embeddings))

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
