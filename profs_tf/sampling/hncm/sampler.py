"""Batches of mined classes, each a pure function of the seed, the step t, and the embeddings up to t - lag.

For a loss with prototypes, such as proxies, it uses the prototypes as they were after step t - lag.

Shapes: L classes, C classes in a batch, D embedding dimension.
"""

import itertools
from collections.abc import Iterator
from typing import Optional

from profs_tf.sampling.batch_sampler import BatchIndices, BatchSampler
from profs_tf.sampling.hncm.feed import EmbeddingFeed
from profs_tf.sampling.hncm.lagged_memory import LaggedMemory, store
from profs_tf.sampling.hncm.memory import ClassMemory
from profs_tf.sampling.hncm.selection import ClassMining
from profs_tf.sampling.projection_schedule import check_whole
from profs_tf.utils.array_types import Labels


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
        representative_reuse: bool = True,
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
            representative_reuse: As for `BatchSampler`.
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
            representative_reuse=representative_reuse,
        )
        if check_whole("lag", lag) < 1:
            raise ValueError(f"`lag` must be >= 1 step, got {lag}.")
        self.mining = mining or ClassMining()
        self.lag = int(lag)
        self.feed = EmbeddingFeed(0)
        self._memory: Optional[ClassMemory] = None

    def begin(self, first_step: int, history: LaggedMemory, stall_seconds: float = 600.0) -> None:
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
                store(memory, message)
            yield self._make_batch(
                step, lambda random: self.mining.choose(random, memory, self.classes_per_batch)
            )

    def batch(self, step: int) -> BatchIndices:
        """Not for mined batches, which depend on more than their step.

        Raises:
            TypeError: Always.
        """
        raise TypeError(f"Batch {step} depends on the embeddings of earlier steps. Iterate over the sampler.")
