"""Batches of mined classes: batch t uses the embeddings of all steps up to t - lag, no more and no fewer.

For a loss with prototypes, such as proxies, it uses the prototypes as they were after step t - lag.

Shapes: L classes, C classes in a batch, D embedding dimension.
"""

import collections
import itertools
from collections.abc import Iterator, Mapping
from typing import Optional

import numpy as np

from profs_tf.sampling.batch_sampler import BatchIndices, BatchSampler
from profs_tf.sampling.hncm.feed import EmbeddingFeed, StepEmbeddings
from profs_tf.sampling.hncm.memory import ClassMemory
from profs_tf.sampling.hncm.selection import ClassMining
from profs_tf.sampling.projection_schedule import check_whole
from profs_tf.utils.array_types import Labels


class MiningHistory:
    """The state of mining after a step: the memory that the next batch is mined from, and later messages.

    The trainer keeps one for its checkpoints, because the sampler's memory runs ahead of training by a few
    batches.

    Attributes:
        memory: a `ClassMemory` of the messages that the next batch may use.
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
            _store(self.memory, self.pending.popleft())

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


class MinedBatchSampler(BatchSampler):
    """A `BatchSampler` that draws seed classes and adds the nearest classes of each (HNCM).

    The batch of step t is a pure function of the seed, of t, and of the embeddings that the steps up to
    ``t - lag`` computed for their representatives. With a loss that has prototypes (Proxy-NCA, SoftTriple),
    it is one of the prototypes after step ``t - lag``; the first ``lag`` batches use those before training.
    Two runs with one seed are equal bit for bit, however far the pipeline runs ahead; with a larger lag it
    can run further ahead, on older embeddings.

    The embedding of a class is that of the last step up to ``t - lag`` whose batch had the class. Before its
    first such step, a class is no class's neighbor, and as a seed it adds classes drawn uniformly. This does
    not last long, since seeds are drawn from all classes. After a swap, a class keeps the embedding of its
    former representative until the new one is seen (see `ClassMemory`).

    The callback starts each training with `begin`, puts every step's embeddings into `feed`, and ends with
    `feed.close`.

    Attributes:
        mining: How classes are chosen.
        lag: Steps between the newest embeddings used and the batch mined from them, at least 1.
        feed: The queue of the current training.
    """

    def __init__(
        self,
        labels: Labels,
        batch_size: int = 128,
        images_per_class: int = 2,
        seed: int = 0,
        *,
        representative_uses: int = 6,
        steps_per_projection: Optional[int] = None,
        representative_draw: str = "uniform",
        queries: str = "representatives",
        mining: Optional[ClassMining] = None,
        lag: int = 4,
    ) -> None:
        """Prepares the draws.

        Args:
            labels: As for `BatchSampler`.
            batch_size: As for `BatchSampler`.
            images_per_class: As for `BatchSampler`.
            seed: As for `BatchSampler`.
            representative_uses: As for `BatchSampler`.
            steps_per_projection: As for `BatchSampler`.
            representative_draw: As for `BatchSampler`.
            queries: As for `BatchSampler`.
            mining: How classes are chosen; None: three nearest classes for each seed.
            lag: Steps between the newest embeddings used and the batch mined from them, at least 1.

        Raises:
            ValueError: If `lag` is no whole number of at least 1, or as `BatchSampler`.
        """
        super().__init__(
            labels,
            batch_size,
            images_per_class,
            seed,
            representative_uses=representative_uses,
            steps_per_projection=steps_per_projection,
            representative_draw=representative_draw,
            queries=queries,
        )
        if check_whole("lag", lag) < 1:
            raise ValueError(f"`lag` must be >= 1 step, got {lag}.")
        self.mining = mining or ClassMining()
        self.lag = int(lag)
        self.feed = EmbeddingFeed(0)
        self._memory: Optional[ClassMemory] = None

    def begin(self, first_step: int, history: MiningHistory, stall_seconds: float = 600.0) -> None:
        """Starts at a step, with the embeddings of the steps before it.

        Args:
            first_step: The step of the first batch.
            history: The state after the step before it.
            stall_seconds: How long a training step may take.
        """
        self.first_step = first_step
        self._memory = history.memory.copy()
        first_pending = history.pending[0].step if history.pending else first_step
        self.feed = EmbeddingFeed(first_pending, stall_seconds)
        for message in history.pending:
            self.feed.put(message)

    def iterate_from(self, first_step: int = 0) -> Iterator[BatchIndices]:
        """Yields the batches from `first_step` on; waits for the embeddings that each is mined from.

        Ends when the feed is closed.

        Raises:
            ValueError: If `begin` was not called, or with another step; if embeddings are not finite.
            StalledTrainingError: If embeddings do not arrive.
        """
        if self._memory is None or first_step != self.first_step:
            raise ValueError(
                f"`first_step` must be the step that mining began with, got {first_step}. "
                "Train with ProfsCallback and this sampler, which begins it."
            )
        # The next training replaces both, perhaps before this iteration has ended.
        memory, feed = self._memory, self.feed
        for step in itertools.count(first_step):
            while feed.next_step <= step - self.lag:
                message = feed.take()
                if message is None:
                    return
                _store(memory, message)
            yield self._make_batch(
                step, lambda random: self.mining.choose(random, memory, self.classes_per_batch)
            )

    def batch(self, step: int) -> BatchIndices:
        """Not for mined batches, which depend on more than their step.

        Raises:
            TypeError: Always.
        """
        raise TypeError(f"Batch {step} depends on the embeddings of earlier steps. Iterate over the sampler.")


def _store(memory: ClassMemory, message: StepEmbeddings) -> None:
    if message.classes is None:
        memory.replace(message.embeddings)
    else:
        memory.update(np.asarray(message.classes), np.asarray(message.embeddings))
