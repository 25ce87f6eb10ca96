"""Training from wherever the model is to the end of an epoch, by Keras's fit."""

import warnings
from typing import Union

import tensorflow as tf

from profs_tf.models.profs_model import ProfsModel


def fit_from_step(
    model: ProfsModel,
    dataset: Union[tf.data.Dataset, tf.distribute.DistributedDataset],
    epochs: int,
    steps_per_epoch: int,
    callbacks: list[tf.keras.callbacks.Callback],
    verbose: int,
) -> None:
    """Trains from the model's step to the end of the last epoch, first completing an epoch left half way."""
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


def progress_callbacks(progress: str) -> list[tf.keras.callbacks.Callback]:
    """Returns TensorFlow Addons' progress bar where it is asked for; Keras shows the others itself."""
    if progress != "tqdm":
        return []
    with warnings.catch_warnings():
        # Importing it announces the end of its development, which is no concern of who sees the bar.
        warnings.simplefilter("ignore")
        from tensorflow_addons.callbacks import TQDMProgressBar
    return [TQDMProgressBar()]
