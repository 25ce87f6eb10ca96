"""The callback that trains only the head at first: a random head then does not disturb a trained backbone."""

from typing import Optional, Union

import tensorflow as tf

from profs_tf.models.head import HEAD_LAYER, head_variables
from profs_tf.models.loss_scaling import inner_optimizer
from profs_tf.optimizers.head_adam import HeadAdam


class HeadWarmUp(tf.keras.callbacks.Callback):
    """Keeps the backbone as it is for the first epochs: its learning-rate multipliers are 0, then as before.

    The head and the loss's own variables learn meanwhile. Adam follows the gradients of the backbone from the
    start, so its first steps are not those of empty moments. Moving statistics of batch normalization follow
    the data unless `freeze_batch_norm` freezes them. The state follows from the epoch: a resumed run equals
    one that nothing interrupted.
    """

    def __init__(self, epochs: int, head_layer: Union[str, tf.keras.layers.Layer] = HEAD_LAYER) -> None:
        """Sets the length.

        Args:
            epochs: Epochs of warm-up, counted from the first of the run (``initial_epoch`` included).
            head_layer: The layer that learns meanwhile, or its name.

        Raises:
            ValueError: If ``epochs`` is negative.
        """
        super().__init__()
        if epochs < 0:
            raise ValueError(f"`epochs` must be >= 0, got {epochs}.")
        self._epochs = epochs
        self._head_layer = head_layer
        self._multipliers: Optional[list[tuple[tf.Variable, float]]] = None

    def on_train_begin(self, logs: Optional[dict[str, float]] = None) -> None:
        """Takes down the multipliers of the backbone.

        Raises:
            ValueError: If the optimizer has no multipliers.
        """
        optimizer = inner_optimizer(self.model.optimizer)
        if not isinstance(optimizer, HeadAdam):
            raise ValueError(
                f"`optimizer` must be a HeadAdam for a warm-up, got {type(optimizer).__name__}. Pass "
                "profs_tf.head_adam(embedder) to `compile`."
            )
        if self._multipliers is None:
            embedder: tf.keras.Model = getattr(self.model, "embedder", self.model)
            head = {variable.ref() for variable in head_variables(embedder, self._head_layer)}
            self._multipliers = [
                (variable, optimizer.multiplier_of(variable))
                for variable in embedder.trainable_variables
                if variable.ref() not in head
            ]

        # Also after an error: the next `fit` may go on without this callback.
        if hasattr(self.model, "call_at_fit_end"):
            self.model.call_at_fit_end(lambda: self._multiply(1.0))

    def on_epoch_begin(self, epoch: int, logs: Optional[dict[str, float]] = None) -> None:
        """Freezes or releases the backbone."""
        self._multiply(0.0 if epoch < self._epochs else 1.0)

    def on_train_end(self, logs: Optional[dict[str, float]] = None) -> None:
        """Releases the backbone, for training without this callback."""
        self._multiply(1.0)

    def _multiply(self, factor: float) -> None:
        for variable, multiplier in self._multipliers or ():
            inner_optimizer(self.model.optimizer).set_multiplier([variable], factor * multiplier)
