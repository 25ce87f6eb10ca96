"""A run's whole state on disk, so that a run that was killed and resumed equals one that was not.

Saved together, in one TensorFlow checkpoint: the embedder with its moving statistics, the anchors and the
projection index, the optimizer with its moments, the loss's variables, the step (which is the sampler's
place, since sampling is a function of the step), the random state of dropout, the running means of the
present epoch, and what callbacks remember.
"""

import contextlib
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import NoReturn, Optional

import numpy as np
import tensorflow as tf

from profs_tf.distribution import collectives
from profs_tf.models.callback_states import CallbackStates, Stateful
from profs_tf.utils import output
from profs_tf.utils.signals import handling

_KEPT = 2


class TrainingInterruptedError(Exception):
    """Training was asked to stop by a signal; its state has been saved."""


class RunCheckpoint(tf.keras.callbacks.Callback):
    """Saves after every epoch, every so many steps, and when the process is asked to stop.

    Must be the last callback, so that it saves what the others did at the end of an epoch.

    Of several workers all save at the same steps, each into its own folder, and a signal to one stops all
    after the same step.
    """

    def __init__(
        self,
        folder: Path,
        model: tf.keras.Model,
        callbacks: Mapping[str, Stateful],
        every_steps: Optional[int] = None,
        restore_from: Optional[Path] = None,
    ) -> None:
        """Prepares saving.

        Args:
            folder: Of the checkpoints; the newest two are kept.
            model: The compiled `ProfsModel`.
            callbacks: Name to callback with `state()` and `restore(state)`; a state is a dict of values
                that JSON holds, and of arrays.
            every_steps: Save every so many steps, too; None does not.
            restore_from: Folder whose newest checkpoint `restore` takes; None takes `folder`.
        """
        super().__init__()
        self._memory = CallbackStates(callbacks)
        # Not `self.model`: Keras sets that one when training begins.
        self._trained = model
        parts = {"model": model, "memory": self._memory}
        if generators := random_generators(model.embedder):
            parts["random"] = generators
        self._manager = tf.train.CheckpointManager(
            tf.train.Checkpoint(**parts), str(folder), max_to_keep=_KEPT
        )
        self._restore_from = str(folder if restore_from is None else restore_from)
        self._every_steps = every_steps
        self._signal: Optional[int] = None
        self._interrupted_means: Optional[list[np.ndarray]] = None
        self._last_saved = -1

    def restore(self) -> bool:
        """Takes over the newest checkpoint; returns False where there is none.

        Raises:
            ValueError: If the checkpoint is not of this model.
        """
        newest = tf.train.latest_checkpoint(self._restore_from)
        if newest is None:
            return False
        try:
            self._manager.checkpoint.restore(newest).assert_consumed()
        except (AssertionError, ValueError, tf.errors.OpError) as error:
            raise ValueError(f"The checkpoint {newest} does not fit this model: {error}") from error
        self._last_saved = self._trained.steps_taken
        # `fit` sets the means to zero when an epoch begins; one that was left half way goes on with these.
        self._interrupted_means = self._mean_values()
        return True

    @contextlib.contextmanager
    def saving_on_signals(self) -> Iterator[None]:
        """Within it Ctrl-C and SIGTERM save and stop after the step; a second Ctrl-C stops at once."""
        with handling((signal.SIGINT, signal.SIGTERM), self._note_signal):
            yield

    def save(self) -> None:
        """Saves now, unless this step is saved already."""
        step = self._trained.steps_taken
        if step != self._last_saved:
            # A checkpoint holds their mean: to go on with it is then to go on as if there was no checkpoint.
            collectives.average_statistics(self._trained.embedder)
            self._manager.save(checkpoint_number=step)
            self._last_saved = step

    def on_epoch_begin(self, epoch: int, logs: Optional[dict[str, float]] = None) -> None:
        """Gives the means of an epoch that was left half way their values back."""
        if self._interrupted_means is None:
            return
        for variable, value in zip(self._mean_variables(), self._interrupted_means):
            variable.assign(value)
        self._interrupted_means = None

    def on_train_batch_begin(self, batch: int, logs: Optional[dict[str, float]] = None) -> None:
        """Tells the other workers in the step that comes that a signal asks for a stop."""
        if self._signal is not None and self._trained.stop_request is not None:
            self._trained.stop_request.set()

    def on_train_batch_end(self, batch: int, logs: Optional[dict[str, float]] = None) -> None:
        """Saves where it is time to, or where a signal asks for it."""
        if batch + 1 == self.params.get("steps"):
            # Left to `on_epoch_end`: a run that went on from here would never evaluate or log the epoch.
            return
        if self._is_to_stop():
            self._stop()
        # Not a remainder of 0: one call of the train function may take several steps.
        every = self._every_steps
        if every and self._trained.steps_taken // every > max(self._last_saved, 0) // every:
            self.save()

    def on_epoch_end(self, epoch: int, logs: Optional[dict[str, float]] = None) -> None:
        """Saves, with the means at zero, as the next epoch begins."""
        self._trained.reset_metrics()
        self.save()
        if self._is_to_stop():
            self._stop()

    def _note_signal(self, number: int, frame: Optional[FrameType]) -> None:
        if self._signal is not None:
            raise KeyboardInterrupt
        self._signal = number
        # A reader such as tee ends by the same Ctrl-C: what is printed before saving must not fail.
        with contextlib.suppress(BrokenPipeError):
            print("\nSaving after this step; once more to stop at once.", flush=True)
        if output.is_pipe():
            output.drop()

    def _is_to_stop(self) -> bool:
        """Whether a signal asks for a stop: of several workers, one that all learned of in the last step."""
        vote = self._trained.stop_request
        return self._signal is not None if vote is None else vote.is_set

    def _stop(self) -> NoReturn:
        self.save()
        reason = "Another worker stopped" if self._signal is None else signal.Signals(self._signal).name
        raise TrainingInterruptedError(f"{reason} at step {self._trained.steps_taken}: the run is saved.")

    def _mean_variables(self) -> list[tf.Variable]:
        return [variable for metric in self._trained.metrics for variable in metric.variables]

    def _mean_values(self) -> list[np.ndarray]:
        return [variable.numpy() for variable in self._mean_variables()]


def random_generators(embedder: tf.keras.Model) -> list[tf.random.Generator]:
    """Returns those of Keras's layers such as Dropout, which Keras's checkpoints leave out.

    Dropout has one only if `enable_tf_random_generator` was called before it was made. What a layer draws in
    another way, such as by `tf.random`, no checkpoint can hold.
    """
    drawn = (getattr(layer, "_random_generator", None) for layer in embedder.submodules)
    generators = (getattr(random, "_generator", None) for random in drawn)
    return [generator for generator in generators if generator is not None]
