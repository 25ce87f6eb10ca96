"""The callback that starts projections: it swaps the anchor weights every M steps."""

from collections.abc import Mapping
from typing import Optional, Union

import numpy as np
import tensorflow as tf
from absl import logging

from profs_tf.callbacks.class_mining import MiningLink
from profs_tf.callbacks.loss_plateau import PlateauLink
from profs_tf.models.profs_model import steps_taken_by
from profs_tf.models.proximal import ProximalTerm
from profs_tf.sampling.batch_sampler import BatchSampler
from profs_tf.sampling.hncm.sampler import MinedBatchSampler
from profs_tf.sampling.plateau.sampler import PlateauBatchSampler


class ProfsCallback(tf.keras.callbacks.Callback):
    """Starts projections: copies the weights into the anchors before every M-th step.

    It follows the sampler's schedule with its own step count, taken from the model; sampler and callback do
    not communicate while training runs. With M = 1 the anchors lag one step behind instead (see
    `ProximalTerm`). It adds `projection_index` to the logs.

    With a `MinedBatchSampler` it also hands the embeddings that each step computed for its representatives to
    the sampler, with a `PlateauBatchSampler` each step's loss, and keeps what the sampler needs of the past
    for checkpoints. A plateau of the loss then takes the place of M steps.

    A stock `tf.keras.Model` has no anchors: the callback then follows and reports the projections, which
    still determine the representatives, and says so once.
    """

    adds_to_logs = True

    def __init__(self, sampler: BatchSampler) -> None:
        """Follows the schedule of a sampler.

        Args:
            sampler: The one that gives the training batches. When training starts, its `first_step` is set to
                the number of steps the model has taken.
        """
        super().__init__()
        self.sampler = sampler
        self._step = 0
        self._stride = 1
        self._epoch_starts = False
        self._link: Union[MiningLink, PlateauLink, None] = None
        if isinstance(sampler, MinedBatchSampler):
            self._link = MiningLink(sampler)
        elif isinstance(sampler, PlateauBatchSampler):
            self._link = PlateauLink(sampler)

    def on_train_begin(self, logs: Optional[dict[str, float]] = None) -> None:
        """Takes the step count from the model.

        Raises:
            ValueError: If `steps_per_execution` would miss a swap, or the sampler knows other steps.
        """
        stride = getattr(self.model, "_steps_per_execution", None)
        self._stride = 1 if stride is None else int(stride.numpy())
        # Before the model is changed.
        self._check_strides(steps_taken_by(self.model))
        if self._proximal is None:
            logging.warning(
                "The model is a %s, which has no anchor weights: batches follow the projections, but the "
                "proximal penalty is not applied. Use ProfsModel for it.",
                type(self.model).__name__,
            )
        else:
            if self._set_up(self._proximal):
                # An existing train function was traced without it.
                self.model.make_train_function(force=True)
            self._proximal.in_use = True
        if not isinstance(self._link, MiningLink) and getattr(self.model, "representative_tap", None):
            # Of an earlier `fit` with class mining.
            self.model.representative_tap = None
            self.model.make_train_function(force=True)
        self._start_at(steps_taken_by(self.model))

    def on_epoch_begin(self, epoch: int, logs: Optional[dict[str, float]] = None) -> None:
        """Takes the step count again where another callback restored the model."""
        self._epoch_starts = True
        step = steps_taken_by(self.model)
        if step != self._step or (self._link and self._link.is_restored):
            self._start_at(step)

    def on_train_batch_begin(self, batch: int, logs: Optional[dict[str, float]] = None) -> None:
        """Swaps the anchors where a projection starts."""
        if self._link:
            self._link.step_begins()
        if self._proximal is None or self._proximal.lagged:
            return
        if self._begins_projection():
            self._proximal.swap(self._projection_index(self._step))

    def on_train_batch_end(self, batch: int, logs: Optional[dict[str, float]] = None) -> None:
        """Counts the steps of one call of the train function; hands what they computed to the sampler."""
        if self._link:
            self._link.step_ends(self._step)
        elif self._epoch_starts:
            self._check_data()
        self._epoch_starts = False
        self._step += self._stride

    def on_train_end(self, logs: Optional[dict[str, float]] = None) -> None:
        """Tells the sampler that no more steps follow."""
        if self._link:
            self._link.end()
        if self._proximal is None:
            # Keras takes the first batch of a generator before `on_train_begin`; `ProfsModel.fit` sets it.
            self.sampler.first_step = self._step

    def on_epoch_end(self, epoch: int, logs: Optional[dict[str, float]] = None) -> None:
        """Adds `projection_index`, that of the last step taken, to the logs."""
        if logs is not None:
            logs["projection_index"] = self._projection_index(max(self._step - 1, 0))

    def state(self) -> dict[str, np.ndarray]:
        """Returns what a resumed run needs, arrays by name: the history of a sampler that needs one."""
        return self._link.state() if self._link else {}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Takes over what `state` returned."""
        if self._link:
            self._link.restore(state)

    def _set_up(self, proximal: ProximalTerm) -> bool:
        """Sets how the anchors move; returns whether that is a change."""
        return proximal.move_anchors(lagged=self.sampler.schedule.steps_per_projection == 1)

    def _begins_projection(self) -> bool:
        """Returns whether the next step is the first of a projection."""
        if isinstance(self._link, PlateauLink):
            return self._link.projections.start == self._step
        return self.sampler.schedule.begins_projection(self._step)

    def _projection_index(self, step: int) -> int:
        """Returns k of the next step or of the last one."""
        if isinstance(self._link, PlateauLink):
            return self._link.projections.index_of(step)
        return self.sampler.schedule.projection_index(step)

    @property
    def _proximal(self) -> Optional[ProximalTerm]:
        return getattr(self.model, "proximal", None)

    def _start_at(self, step: int) -> None:
        """Takes a step as the one that comes next, for itself, the sampler and the link to it."""
        self._check_strides(step)
        self._step = step
        self.sampler.first_step = step
        if self._link:
            self._link.begin(self.model, step, self._stride)
        if self._proximal is not None and self._proximal.lagged and step == 0:
            self._proximal.swap(0)

    def _check_strides(self, step: int) -> None:
        self.sampler.schedule.check_strides(self._stride, self.params.get("steps"), step)

    def _check_data(self) -> None:
        """Raises ValueError if the last batch is not the one that the sampler gives for its step."""
        seen = getattr(self.model, "batch_fingerprint", None)
        if seen is None:
            return
        step = self._step + self._stride - 1
        classes = self.sampler.batch(step).labels
        own_labels = self.sampler.table.class_labels[classes]
        if seen.is_of(classes) or (own_labels.dtype.kind in "iuf" and seen.is_of(own_labels)):
            return
        raise ValueError(
            f"`x` must give the batches of the sampler in order, got other labels than those of step {step}. "
            "Pass ProfsCallback the sampler of the data, and data that start at `sampler.first_step`."
        )
