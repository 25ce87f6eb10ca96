"""Batches whose classes are mined: from the embeddings of all steps up to t - lag, no more and no fewer.

Where the loss holds vectors of classes, such as proxies, these: as they were after step t - lag.

Shapes: L classes, C classes in a batch, D embedding dimension.
"""

import collections
import itertools
from collections.abc import Iterator, Mapping
from typing import Optional

import numpy as np

from profs_tf.sampling.batch_sampler import Batch, BatchSampler
from profs_tf.sampling.hncm.feed import EmbeddingFeed, StepEmbeddings
from profs_tf.sampling.hncm.memory import ClassMemory
from profs_tf.sampling.hncm.selection import ClassMining
from profs_tf.utils.array_types import Labels


class MiningHistory:
    """What mining needs of the past: the memory as the next batch saw it, and the messages after that.

    The trainer's side keeps one and saves it with its checkpoints. The sampler's own memory is of no use for
    that: it runs ahead of training by a few batches.

    Attributes:
        memory: `ClassMemory` with the messages of all steps before `first_pending` taken in.
        pending: the messages since, at most ``lag - 1``.
    """

    def __init__(self, num_classes: int, embedding_dim: int, lag: int) -> None:
        """Begins before the first step, with an empty memory."""
        self.memory = ClassMemory(num_classes, embedding_dim)
        self.pending: collections.deque[StepEmbeddings] = collections.deque()
        self._lag = lag

    def add(self, message: StepEmbeddings) -> None:
        """Takes in the message of the step that was just taken; O(C D), with vectors of classes O(L)."""
        self.pending.append(message)
        # The next batch, of message.step + 1, is mined from the messages up to message.step + 1 - lag.
        while self.pending and self.pending[0].step <= message.step + 1 - self._lag:
            _take_in(self.memory, self.pending.popleft())

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns everything as arrays by name, for a checkpoint.

        4 L D bytes and a little more, with vectors of classes up to ``lag`` times as much.
        """
        arrays = {"embeddings": self.memory.embeddings, "seen": self.memory.seen}
        for position, message in enumerate(self.pending):
            arrays[f"step_{position}"] = np.asarray(message.step, np.int64)
            if message.classes is not None:
                arrays[f"classes_{position}"] = np.asarray(message.classes)
            arrays[f"embeddings_{position}"] = np.asarray(message.embeddings)
        return arrays

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Takes over what `arrays` returned.

        Raises:
            ValueError: if it is of another number of classes or another dimension.
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
    """A `BatchSampler` that draws seed classes and lets each bring its nearest classes (HNCM).

    The batch of step t is a pure function of the seed, of t, and of the embeddings that the steps up to
    ``t - lag`` computed for their representatives. With a loss that holds vectors of classes (the proxies of
    Proxy-NCA, the centres of SoftTriple) these take the embeddings' place: as they were after step
    ``t - lag``, before training for the first ``lag`` steps. Two runs with one seed are equal bit for bit,
    however far the pipeline runs ahead; a larger lag lets it run further, on older embeddings.

    How old an embedding is: that of a class which step s held last, s <= t - lag, is of step s. A class which
    no step up to t - lag held has none: it is nobody's neighbour, and where it is itself the seed, classes
    are drawn uniformly in place of its neighbours. It cannot be left out for long, since seeds are drawn from
    all classes. A class whose new representative was not seen since the swap keeps the embedding of the
    former one (see `ClassMemory`).

    The callback begins each training with `begin`, hands every step's embeddings to `feed`, and ends with
    `feed.close`.

    Attributes:
        mining: how classes are chosen.
        lag: steps between the newest embeddings used and the batch mined from them, at least 1.
        feed: of the training that is going on.
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
        """As `BatchSampler`, with mining.

        Args:
            labels: [N], as `BatchSampler`.
            batch_size: B, likewise.
            images_per_class: I, likewise.
            seed: likewise.
            representative_uses: rho, likewise.
            steps_per_projection: M, likewise.
            representative_draw: likewise.
            queries: likewise.
            mining: how classes are chosen; None: each seed's three nearest.
            lag: steps between the newest embeddings used and the batch mined from them, at least 1.

        Raises:
            ValueError: if `lag` is below 1, or as `BatchSampler`.
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
        if lag < 1:
            raise ValueError(f"`lag` must be >= 1 step, got {lag}.")
        self.mining = mining or ClassMining()
        self.lag = int(lag)
        self.feed = EmbeddingFeed(0)
        self._memory: Optional[ClassMemory] = None

    def begin(self, first_step: int, history: MiningHistory, stall_seconds: float = 600.0) -> None:
        """Prepares iterating from a step, with what the steps before it computed.

        Args:
            first_step: T, the steps taken.
            history: of these steps.
            stall_seconds: how long a training step may take.
        """
        self.first_step = first_step
        self._memory = history.memory.copy()
        first_pending = history.pending[0].step if history.pending else first_step
        self.feed = EmbeddingFeed(first_pending, stall_seconds)
        for message in history.pending:
            self.feed.put(message)

    def iterate_from(self, first_step: int = 0) -> Iterator[Batch]:
        """Yields the batches from `first_step` on, waiting for the embeddings that each is mined from.

        Ends when the feed is closed.

        Raises:
            ValueError: if `begin` was not called, or for another step.
            StalledTrainingError: if embeddings do not arrive.
        """
        if self._memory is None or first_step != self.first_step:
            raise ValueError(
                f"`first_step` must be the step that mining began with, got {first_step}. "
                "Train with ProfsCallback and this sampler, which begins it."
            )
        # Held here: the next training has others, while this iteration may still be winding up.
        memory, feed = self._memory, self.feed
        for step in itertools.count(first_step):
            while feed.next_step <= step - self.lag:
                message = feed.take()
                if message is None:
                    return
                _take_in(memory, message)
            yield self._make_batch(
                step, lambda random: self.mining.choose(random, memory, self.classes_per_batch)
            )

    def batch(self, step: int) -> Batch:
        """Not for mined batches, which depend on more than the step.

        Raises:
            TypeError: always.
        """
        raise TypeError(f"Batch {step} depends on the embeddings of earlier steps. Iterate over the sampler.")


def _take_in(memory: ClassMemory, message: StepEmbeddings) -> None:
    if message.classes is None:
        memory.replace(message.embeddings)
    else:
        memory.update(np.asarray(message.classes), np.asarray(message.embeddings))
