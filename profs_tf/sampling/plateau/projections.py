"""Projections that end where the loss no longer falls, as section 4 of the paper suggests.

A projection that began at step s has stretches of S steps: s to s + S - 1, and so on. With patience P = 2 and
lag 1, stretches of S = 2 steps and these losses:

    step     0    1    2    3    4    5    6    7    8    9
    loss     5    3    2    2    3    1    3    2    9    8
    mean        4         2         2        2.5       8.5
    stale       0         0         1         2
    k        0    0    0    0    0    0    0    0    1    1

The mean of two stretches in a row was not below the lowest one, so projection 1 begins at step 8. It counts
its own stretches, of which the first is the one with mean 8.5. With lag 3 the loss of step 7 is known to the
batches from step 10 on, with which projection 1 then begins.
"""

import collections
import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Union

import numpy as np

from profs_tf.sampling.lagged.history import LaggedHistory
from profs_tf.utils.checks import check_count

if TYPE_CHECKING:
    import tensorflow as tf


@dataclass(frozen=True)
class PlateauRule:
    """When a projection ends.

    Attributes:
        stretch: S, the steps over which losses are averaged.
        patience: P, the stretches in a row whose mean loss is not below the lowest one of the projection.
        longest: The steps after which a projection ends in any case.
    """

    stretch: int
    patience: int
    longest: int

    def __post_init__(self) -> None:
        for name in ("stretch", "patience", "longest"):
            check_count(name, getattr(self, name))
        if self.longest <= self.shortest:
            raise ValueError(
                f"`longest` must be above {self.shortest} steps, {1 + self.patience} stretches of "
                f"{self.stretch}, got {self.longest}: no projection could end on a plateau."
            )

    @property
    def shortest(self) -> int:
        """The steps of the shortest projection but for the lag: of the lowest stretch and P more."""
        return (1 + self.patience) * self.stretch


class StepLoss(NamedTuple):
    """The loss that a step computed, before its update.

    Attributes:
        step: t.
        loss: Scalar, without the proximal penalty.
    """

    step: int
    loss: Union[float, np.ndarray, "tf.Tensor"]


class PlateauProjections:
    """The projection of the next batch, by the losses of the steps up to t - lag.

    Attributes:
        index: k.
        start: The step with which the projection began.
    """

    def __init__(self, rule: PlateauRule, lag: int, start: int = 0) -> None:
        """Begins projection 0 at a step."""
        self._rule = rule
        self._lag = lag
        self.index, self.start = 0, start
        self._begin_stretches()

    def _begin_stretches(self) -> None:
        self._end = self.start + self._rule.longest
        self._sum, self._lowest, self._stale = 0.0, math.inf, 0

    def take(self, message: StepLoss) -> None:
        """Takes the loss of a step; those of consecutive steps in order."""
        taken = message.step - self.start + 1
        if taken < 1:
            # Of the steps that the projection before took until its plateau was known.
            return
        self._sum += float(np.asarray(message.loss))
        if taken % self._rule.stretch:
            return
        mean, self._sum = self._sum / self._rule.stretch, 0.0
        if mean < self._lowest:
            self._lowest, self._stale = mean, 0
        else:
            self._stale += 1
        if self._stale == self._rule.patience:
            # The first batch that this loss is known to.
            self._end = min(self._end, message.step + self._lag)

    def enter(self, step: int) -> None:
        """Begins the next projection if this step, the next one, is its first.

        To be called for every step, after `take` of the losses up to step - lag.
        """
        if step == self._end:
            self.index += 1
            self.start = step
            self._begin_stretches()

    def index_of(self, step: int) -> int:
        """Returns k of the step that was entered last or of the one before."""
        return self.index if step >= self.start else self.index - 1

    def copy(self) -> "PlateauProjections":
        """Returns an independent copy."""
        return copy.copy(self)

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the state as arrays by name."""
        return {
            "whole": np.array([self.index, self.start, self._end, self._stale], np.int64),
            "losses": np.array([self._sum, self._lowest], np.float64),
        }

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restores what `arrays` returned."""
        self.index, self.start, self._end, self._stale = arrays["whole"].tolist()
        self._sum, self._lowest = arrays["losses"].tolist()


class LaggedLosses(LaggedHistory[PlateauProjections, StepLoss]):
    """The projection of the next batch, and the losses of the last steps, which it does not depend on."""

    def __init__(self, rule: PlateauRule, lag: int, first_step: int = 0) -> None:
        """Creates the state before a first step."""
        super().__init__(PlateauProjections(rule, lag, first_step), lag)

    def add(self, message: StepLoss) -> None:
        """Adds the loss of the step that was just taken, and enters the next one."""
        super().add(message)
        self.memory.enter(message.step + 1)

    @staticmethod
    def store(memory: PlateauProjections, message: StepLoss) -> None:
        """Takes the loss of a step."""
        memory.take(message)

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the state as arrays by name, for a checkpoint."""
        pending = [(message.step, float(np.asarray(message.loss))) for message in self.pending]
        return {**self.memory.arrays(), "pending": np.array(pending, np.float64).reshape(-1, 2)}

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Restores what `arrays` returned."""
        self.memory.restore(arrays)
        self.pending = collections.deque(
            StepLoss(int(step), loss) for step, loss in arrays["pending"].tolist()
        )
