"""Batches of mined classes, each a pure function of the seed, the step t, and the embeddings up to t - lag.

For a loss with prototypes, such as proxies, it uses the prototypes as they were after step t - lag.

Shapes: L classes, C classes in a batch, D embedding dimension.
"""

from typing import Optional

from profs_tf.sampling.batch_sampler import BatchIndices
from profs_tf.sampling.hncm.lagged_memory import StepEmbeddings
from profs_tf.sampling.hncm.memory import ClassMemory
from profs_tf.sampling.hncm.selection import ClassMining
from profs_tf.sampling.lagged.sampler import LaggedSampler
from profs_tf.utils.array_types import Labels


class MinedBatchSampler(LaggedSampler[ClassMemory, StepEmbeddings]):
    """A `BatchSampler` that draws seed classes and adds the nearest classes of each (HNCM).

    The batch of step t is a pure function of the seed, of t, and of the embeddings that the steps up to
    ``t - lag`` computed for their representatives. With a loss that has prototypes (Proxy-NCA, SoftTriple),
    it is one of the prototypes after step ``t - lag``; the first ``lag`` batches use those before training.

    The embedding of a class is that of the last step up to ``t - lag`` whose batch had the class. Before its
    first such step, a class is no class's neighbor, and as a seed it adds classes drawn uniformly. This does
    not last long, since seeds are drawn from all classes. After a swap, a class keeps the embedding of its
    former representative until the new one is seen (see `ClassMemory`).

    Attributes:
        mining: How classes are chosen.
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
            lag=lag,
        )
        self.mining = mining or ClassMining()

    def _draw(self, step: int, memory: ClassMemory) -> BatchIndices:
        return self._make_batch(
            step, lambda random: self.mining.choose(random, memory, self.classes_per_batch)
        )
