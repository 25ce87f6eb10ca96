"""The callback that begins projections: it swaps the anchor weights every M steps."""

from collections.abc import Mapping
from typing import Optional

import numpy as np
import tensorflow as tf
from absl import logging

from profs_tf.callbacks.class_mining import MiningLink
from profs_tf.models.non_finite import TERMS, NonFiniteLossError
from profs_tf.models.profs_model import steps_taken_by
from profs_tf.models.proximal import ProximalTerm
from profs_tf.sampling.batch_sampler import BatchSampler
from profs_tf.sampling.hncm.sampler import MinedBatchSampler


class ProfsCallback(tf.keras.callbacks.Callback):
    """Begins projections: copies the weights into the anchors before every M-th step.

    It follows the sampler's schedule by its own step count; the two never talk while training runs. With
    M = 1 it has the anchor lag one step behind instead (see `ProximalTerm`). It reports `projection_index`,
    and stops a run whose loss or penalty is no longer finite.

    With a `MinedBatchSampler` it also hands the embeddings that each step computed for its representatives to
    the sampler, and remembers for checkpoints what mining needs of the past.

    With a stock `tf.keras.Model` there are no anchors: the callback then follows and reports the projections,
    which still choose the representatives, and says so once.
    """

    def __init__(self, sampler: BatchSampler) -> None:
        """Follows the schedule of this sampler.

        Args:
            sampler: the one that gives the training batches. When training begins, its `first_step` is set to
                the number of steps the model has taken.
        """
        super().__init__()
        self.sampler = sampler
        self._step = 0
        self._stride = 1
        self._mining = MiningLink(sampler) if isinstance(sampler, MinedBatchSampler) else None

    def on_train_begin(self, logs: Optional[dict[str, float]] = None) -> None:
        """Takes the step count from the model; refuses a `steps_per_execution` that would miss a swap."""
        schedule = self.sampler.schedule
        stride = getattr(self.model, "_steps_per_execution", None)
        self._stride = 1 if stride is None else int(stride.numpy())
        schedule.check_strides(self._stride, self.params.get("steps"))
        self._step = steps_taken_by(self.model)
        self.sampler.first_step = self._step
        if self._mining:
            self._mining.begin(self.model, self._step, self._stride)
        if self._proximal is None:
            logging.warning(
                "The model is a %s, which has no anchor weights: batches follow the projections, but the "
                "proximal penalty is not applied. Use ProfsModel for it.",
                type(self.model).__name__,
            )
            return
        lagged = schedule.steps_per_projection == 1
        if self._proximal.lagged != lagged or not self._proximal.in_use:
            self._proximal.lagged = lagged
            self._proximal.in_use = True
            self.model.make_train_function(force=True)
        if lagged and self._step == 0:
            self._proximal.swap(0)

    def on_train_batch_begin(self, batch: int, logs: Optional[dict[str, float]] = None) -> None:
        """Swaps the anchors where a projection begins."""
        if self._mining:
            self._mining.step_begins()
        if self._proximal is None or self._proximal.lagged:
            return
        if self.sampler.schedule.begins_projection(self._step):
            self._proximal.swap(self.sampler.schedule.projection_index(self._step))

    def on_train_batch_end(self, batch: int, logs: Optional[dict[str, float]] = None) -> None:
        """Counts the steps of one call of the train function; hands its embeddings to the miner."""
        if self._mining:
            self._mining.step_ends(self._step)
        self._step += self._stride
        self._stop_if_not_finite()

    def on_train_end(self, logs: Optional[dict[str, float]] = None) -> None:
        """Ends the miner's waiting for more steps."""
        if self._mining:
            self._mining.end()

    def on_epoch_end(self, epoch: int, logs: Optional[dict[str, float]] = None) -> None:
        """Adds `projection_index`, that of the last step taken, to the logs."""
        if logs is not None:
            logs["projection_index"] = self.sampler.schedule.projection_index(max(self._step - 1, 0))

    def state(self) -> dict[str, np.ndarray]:
        """Returns what a resumed run needs, arrays by name: with class mining its history."""
        return self._mining.state() if self._mining else {}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Takes over what `state` returned."""
        if self._mining:
            self._mining.restore(state)

    @property
    def _proximal(self) -> Optional[ProximalTerm]:
        return getattr(self.model, "proximal", None)

    def _stop_if_not_finite(self) -> None:
        steps = getattr(self.model, "non_finite_steps", None)
        if steps is None:
            return
        for term, step in zip(TERMS, steps.numpy()):
            if step >= 0:
                raise NonFiniteLossError(term, step)
