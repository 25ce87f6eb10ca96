"""Hands a training step's loss back to the sampler whose projections end on a plateau of the loss."""

import math

from profs_tf.callbacks.step_link import StepLink
from profs_tf.models.profs_model import ProfsModel
from profs_tf.models.step_outputs import LossTap
from profs_tf.sampling.plateau.projections import LaggedLosses, PlateauProjections, StepLoss
from profs_tf.sampling.plateau.sampler import PlateauBatchSampler


class PlateauLink(StepLink[PlateauProjections, StepLoss]):
    """Hands over every step's loss, and tells the trainer in which projection a step is."""

    used_for, needed = "ends projections by the loss", "losses"

    def __init__(self, sampler: PlateauBatchSampler) -> None:
        """Takes the sampler; `begin` prepares it."""
        super().__init__(sampler)
        self._rule = sampler.rule
        self._tap: LossTap

    @property
    def projections(self) -> PlateauProjections:
        """The projection of the next step.

        Raises:
            ValueError: If `begin` was not called.
        """
        if self._history is None:
            raise ValueError("`projections` needs a training that `begin` prepared, got none.")
        return self._history.memory

    def _prepare(self, model: ProfsModel) -> None:
        if model.loss_tap is None:
            model.loss_tap = LossTap()
            # An existing train function was traced without it.
            model.make_train_function(force=True)
        self._tap = model.loss_tap

    def _new_history(self, first_step: int) -> LaggedLosses:
        return LaggedLosses(self._rule, self._sampler.lag, first_step)

    def _message(self, step: int) -> StepLoss:
        return StepLoss(step, self._tap.loss.read_value())

    def _missed_message(self, step: int) -> StepLoss:
        return StepLoss(step, math.nan)
