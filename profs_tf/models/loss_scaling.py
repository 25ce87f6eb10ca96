"""Loss scaling of mixed_float16, for an optimizer that scales and a no-op for every other."""

from typing import Any, Optional

import tensorflow as tf


def inner_optimizer(optimizer: Any) -> Any:
    """Returns the optimizer inside a LossScaleOptimizer, and any other optimizer itself."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def scale(optimizer: tf.keras.optimizers.Optimizer, loss: tf.Tensor) -> tf.Tensor:
    """Returns the loss to differentiate, so large that half-precision gradients do not underflow."""
    return optimizer.get_scaled_loss(loss) if _scales(optimizer) else loss


def unscale(
    optimizer: tf.keras.optimizers.Optimizer, gradients: list[Optional[tf.Tensor]]
) -> list[Optional[tf.Tensor]]:
    """Returns the gradients of the loss from those of the scaled loss."""
    return optimizer.get_unscaled_gradients(gradients) if _scales(optimizer) else gradients


def _scales(optimizer: tf.keras.optimizers.Optimizer) -> bool:
    return isinstance(optimizer, tf.keras.mixed_precision.LossScaleOptimizer)
