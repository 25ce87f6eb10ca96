"""The training loop: Keras's `fit` from the step the model is at, and what it shows."""

import sys
import warnings
from typing import Optional, Union

import tensorflow as tf
import tqdm

from profs_tf.models.profs_model import ProfsModel
from profs_tf.utils.progress import is_interactive

_KERAS_VERBOSITY = {"bar": 1, "line": 2, "tqdm": 0, "none": 0}
PROGRESS = tuple(_KERAS_VERBOSITY)


def fit_from_step(
    model: ProfsModel,
    dataset: Union[tf.data.Dataset, tf.distribute.DistributedDataset],
    epochs: int,
    steps_per_epoch: int,
    callbacks: list[tf.keras.callbacks.Callback],
    progress: str,
) -> None:
    """Trains from the model's step to the end of the last epoch, first completing an interrupted epoch."""
    verbose = _KERAS_VERBOSITY[progress]
    epoch, done = divmod(model.steps_taken, steps_per_epoch)
    if done and epoch < epochs:
        model.fit(
            dataset,
            initial_epoch=epoch,
            epochs=epoch + 1,
            steps_per_epoch=steps_per_epoch - done,
            callbacks=callbacks,
            verbose=verbose,
        )
        epoch += 1
        if model.stop_training:
            return
    if epoch < epochs:
        model.fit(
            dataset,
            initial_epoch=epoch,
            epochs=epochs,
            steps_per_epoch=steps_per_epoch,
            callbacks=callbacks,
            verbose=verbose,
        )


def progress_for_output(progress: str) -> str:
    """Returns "line" in place of a bar whose output is a file or a pipe: each redraw would be kept there."""
    streams = {"bar": sys.stdout, "tqdm": sys.stderr}
    return progress if is_interactive(streams.get(progress, sys.stdout)) or progress == "none" else "line"


def progress_callbacks(progress: str) -> list[tf.keras.callbacks.Callback]:
    """Returns the bar for "tqdm", TensorFlow Addons' if it is installed; Keras shows the others itself."""
    if progress != "tqdm":
        return []
    with warnings.catch_warnings():
        # On import it announces the end of its development.
        warnings.simplefilter("ignore")
        try:
            from tensorflow_addons.callbacks import TQDMProgressBar
        except ImportError:
            return [EpochBar()]
    return [TQDMProgressBar()]


class EpochBar(tf.keras.callbacks.Callback):
    """A tqdm bar for each epoch, with the running means of the metrics."""

    def __init__(self) -> None:
        super().__init__()
        self._bar: Optional[tqdm.tqdm] = None

    def on_epoch_begin(self, epoch: int, logs: Optional[dict[str, float]] = None) -> None:
        """Opens the bar."""
        name = f"Epoch {epoch + 1}/{self.params['epochs']}"
        self._bar = tqdm.tqdm(total=self.params["steps"], desc=name, unit="step")

    def on_train_batch_end(self, batch: int, logs: Optional[dict[str, float]] = None) -> None:
        """Advances it to the steps taken."""
        if self._bar is not None:
            self._bar.set_postfix(
                {name: f"{value:.4f}" for name, value in (logs or {}).items()}, refresh=False
            )
            self._bar.update(batch + 1 - self._bar.n)

    def on_epoch_end(self, epoch: int, logs: Optional[dict[str, float]] = None) -> None:
        """Closes it."""
        self._close()

    def on_train_end(self, logs: Optional[dict[str, float]] = None) -> None:
        """Closes the bar of an epoch that was stopped."""
        self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
