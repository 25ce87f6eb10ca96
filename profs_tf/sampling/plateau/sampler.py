"""Batches of projections that end on a plateau of the loss.

Shapes: L classes, C classes in a batch.
"""

from typing import Optional

import numpy as np

from profs_tf.sampling.batch_sampler import BatchIndices
from profs_tf.sampling.lagged.sampler import LaggedSampler
from profs_tf.sampling.plateau.projections import PlateauProjections, PlateauRule, StepLoss
from profs_tf.utils.array_types import Labels

# The longest projection, in those of the paper's rule.
_LONGEST = 10


class PlateauBatchSampler(LaggedSampler[PlateauProjections, StepLoss]):
    """A `BatchSampler` whose projections end when the loss no longer falls, in place of after M steps.

    Losses are averaged over stretches of ``ceil(L / C)`` steps, in which each class has one batch on average,
    and a projection ends after `patience` stretches in a row whose mean is not below the lowest of the
    projection (see `PlateauRule`). Its batches are those of `BatchSampler` with another number k of the
    projection.

    Attributes:
        rule: When a projection ends. `steps_per_projection` is the length of the longest one.
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
        class_draw: str = "independent",
        patience: int = 2,
        lag: int = 4,
    ) -> None:
        """Prepares the draws.

        Args:
            labels: As for `BatchSampler`.
            batch_size: As for `BatchSampler`.
            images_per_class: As for `BatchSampler`.
            seed: As for `BatchSampler`.
            representative_uses: rho; the longest projection has ten times the steps of the paper's rule if
                `steps_per_projection` is None.
            steps_per_projection: The steps after which a projection ends in any case.
            representative_draw: As for `BatchSampler`.
            queries: As for `BatchSampler`.
            representative_reuse: As for `BatchSampler`.
            class_draw: As for `BatchSampler`.
            patience: The stretches in a row without a lower mean loss, after which a projection ends.
            lag: Steps between the newest loss used and the batch that depends on it, at least 1.

        Raises:
            ValueError: If no projection could end on a plateau, or as `BatchSampler`.
        """
        super().__init__(
            labels,
            batch_size,
            images_per_class,
            seed,
            representative_uses=_LONGEST * representative_uses,
            steps_per_projection=steps_per_projection,
            representative_draw=representative_draw,
            queries=queries,
            representative_reuse=representative_reuse,
            class_draw=class_draw,
            lag=lag,
        )
        stretch = -(-self.num_classes // self.classes_per_batch)
        try:
            self.rule = PlateauRule(stretch, patience, self.steps_per_projection)
        except ValueError as error:
            raise ValueError(str(error).replace("longest", "steps_per_projection")) from error

    def _draw(self, step: int, memory: PlateauProjections) -> BatchIndices:
        memory.enter(step)

        def choose_classes(random: np.random.Generator) -> np.ndarray:
            return self._draw_classes(random, step)

        return self._make_batch(step, choose_classes, memory.index)
