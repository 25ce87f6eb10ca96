"""Watches one call of `fit`: its callbacks, its data, and the weights from step to step."""

from collections.abc import Sequence
from typing import Any, Optional

import tensorflow as tf

from profs_tf.models import keras_contract
from profs_tf.models.callback_states import CallbackStates, states_of
from profs_tf.models.non_finite import check_finite_before_training
from profs_tf.sampling.batch_sampler import BatchSampler
from profs_tf.sampling.lagged.sampler import LaggedSampler

# They read the epoch's logs, to which callbacks of this package add.
_READERS_OF_LOGS = (
    tf.keras.callbacks.CSVLogger,
    tf.keras.callbacks.EarlyStopping,
    tf.keras.callbacks.ModelCheckpoint,
    tf.keras.callbacks.ReduceLROnPlateau,
    tf.keras.callbacks.RemoteMonitor,
    tf.keras.callbacks.TensorBoard,
)


class FitGuard(tf.keras.callbacks.Callback):
    """The first callback of every `fit` of a ProfsModel.

    Before training it checks the callbacks and orders them; while training it stops a run that is no longer
    finite, before another callback saves it, and has the step compiled again after a layer was frozen.
    """

    def __init__(self, model: Any, data: Any, callbacks: Any) -> None:
        """Checks what `fit` was given.

        Args:
            model: The `ProfsModel` that is about to be trained.
            data: What `fit` was given as `x`.
            callbacks: What `fit` was given as `callbacks`: a callback, a list of them or None.

        Raises:
            ValueError: If a callback does not go with the model, with the data or with another callback.
        """
        super().__init__()
        self._trained = model
        if isinstance(callbacks, tf.keras.callbacks.CallbackList):
            raise ValueError("`callbacks` must be a list, got a CallbackList. Pass its `callbacks`.")
        given = [callback for callback in tf.nest.flatten(callbacks) if callback is not None]
        keras_contract.check_callbacks(given)
        self._samplers = [callback.sampler for callback in given if hasattr(callback, "sampler")]
        # Ordinary batches need no callback, but go on where the last `fit` ended.
        self._unfollowed = [data.sampler] if isinstance(getattr(data, "sampler", None), BatchSampler) else []
        self._check_sampler_of(data)
        self._ordered = _ordered(given)
        self._has_backup = any(
            isinstance(callback, tf.keras.callbacks.BackupAndRestore) for callback in given
        )

    def begin(self) -> list[tf.keras.callbacks.Callback]:
        """Prepares the model for this `fit`; returns the callbacks to train with.

        Raises:
            ValueError: If nothing is trainable, or values are not finite.
        """
        model = self._trained
        if not model.embedder.trainable_variables and not model.metric_loss.trainable_variables:
            raise ValueError(
                "`embedder` must have a trainable layer, got none, and the loss has no variables to train "
                "either. Set `trainable = True` on a layer and compile the model again."
            )
        check_finite_before_training(
            {
                "embedder": model.embedder.variables,
                "loss": model.metric_loss.variables,
                "optimizer": [*_variables_of(model.optimizer), *model.proximal.anchor_weights],
            }
        )
        model.finite_watch.reset()
        model.proximal.in_use = False
        for sampler in self._samplers or self._unfollowed:
            # Keras takes the first batch of a generator before `on_train_begin`.
            sampler.first_step = model.steps_taken
        if self._has_backup:
            model.callback_states = CallbackStates(states_of(self._ordered))
        return [self, *self._ordered]

    def end(self) -> None:
        """Undoes what `begin` did to the model, also after an error."""
        self._trained.proximal.in_use = False
        if self._has_backup:
            del self._trained.callback_states

    def on_train_batch_begin(self, batch: int, logs: Optional[dict[str, float]] = None) -> None:
        """Checks that anchors are moved; has the step compiled again where layers were frozen since."""
        self._trained.prepare_step()

    def on_train_batch_end(self, batch: int, logs: Optional[dict[str, float]] = None) -> None:
        """Raises NonFiniteLossError where a value is not finite."""
        self._trained.finite_watch.check()

    def _check_sampler_of(self, data: Any) -> None:
        if len(self._samplers) > 1:
            raise ValueError(
                f"`callbacks` must hold one ProfsCallback, got {len(self._samplers)}: each would move "
                "the anchors. Leave out all but one."
            )
        of_data = getattr(data, "sampler", None)
        if of_data is None:
            return
        if isinstance(of_data, LaggedSampler) and not self._samplers:
            raise ValueError(
                f"`callbacks` must hold the ProfsCallback of a {type(of_data).__name__}, which learns from "
                "the training steps, got none. Pass `callbacks=[ProfsCallback(sampler)]`."
            )
        for sampler in self._samplers:
            if sampler is not of_data:
                raise ValueError(
                    "`sampler` of ProfsCallback must be that of the data, got another one. Pass the same "
                    "sampler to both: `train_pipeline(images, sampler)` and `ProfsCallback(sampler)`."
                )


def _ordered(callbacks: Sequence[tf.keras.callbacks.Callback]) -> list[tf.keras.callbacks.Callback]:
    """Returns the callbacks with BackupAndRestore last, and readers of logs behind those that add to them.

    Of the latter, one that may change the weights when an epoch ends comes last: others evaluate the epoch's.
    BackupAndRestore then saves what the others did at an epoch's end, and restores after they began.
    """
    adding = [number for number, callback in enumerate(callbacks) if getattr(callback, "adds_to_logs", False)]
    last_adding = max(adding, default=-1)
    head = sorted(callbacks[: last_adding + 1], key=lambda each: getattr(each, "changes_weights", False))
    early = [callback for callback in head if isinstance(callback, _READERS_OF_LOGS)]
    ordered = (
        [callback for callback in head if callback not in early] + early + list(callbacks[last_adding + 1 :])
    )
    backups = [callback for callback in ordered if isinstance(callback, tf.keras.callbacks.BackupAndRestore)]
    return [callback for callback in ordered if callback not in backups] + backups


def _variables_of(optimizer: Any) -> Sequence[tf.Variable]:
    """Returns the variables of an optimizer; those of Keras's legacy ones are given by a function."""
    return optimizer.variables() if callable(optimizer.variables) else optimizer.variables
