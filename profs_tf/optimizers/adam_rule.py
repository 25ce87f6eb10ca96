"""The update of Adam (Kingma and Ba, 2015) as a pure function, with the operations of Keras in their order.

Equal to ``tf.keras.optimizers.Adam`` in every bit; kept apart so that a variable's learning rate is an
argument, not something the optimizer's ``learning_rate`` stands for while the variable is updated.
"""

from collections.abc import Sequence
from typing import Union

import tensorflow as tf


def adam_update(
    gradient: Union[tf.Tensor, tf.IndexedSlices],
    moments: Sequence[tf.Tensor],
    *,
    rate: tf.Tensor,
    step: tf.Tensor,
    beta_1: float,
    beta_2: float,
    epsilon: float,
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Returns the new moments and what is to be subtracted from the variable.

    Args:
        gradient: Of the variable's shape, or slices of it with no row twice.
        moments: The first and second moments m and v; with AMSGrad also the maximum of v so far.
        rate: Learning rate, scalar of the variable's dtype.
        step: t, counted from 1, scalar of the variable's dtype.
        beta_1: Decay of m.
        beta_2: Decay of v.
        epsilon: Added to the root of v.
    """
    dtype = rate.dtype
    beta_1_power = tf.pow(tf.cast(beta_1, dtype), step)
    beta_2_power = tf.pow(tf.cast(beta_2, dtype), step)
    alpha = rate * tf.sqrt(1 - beta_2_power) / (1 - beta_1_power)
    m, v, *largest = moments
    m = _moving_average(m, gradient, beta_1)
    v = _moving_average(v, _squared(gradient), beta_2)
    largest = [tf.maximum(v_hat, v) for v_hat in largest]
    divisor = largest[0] if largest else v
    return [m, v, *largest], (m * alpha) / (tf.sqrt(divisor) + epsilon)


def _moving_average(average: tf.Tensor, value: Union[tf.Tensor, tf.IndexedSlices], decay: float) -> tf.Tensor:
    if isinstance(value, tf.IndexedSlices):
        decayed = average + -average * (1 - decay)
        return tf.tensor_scatter_nd_add(decayed, value.indices[:, tf.newaxis], value.values * (1 - decay))
    return average + (value - average) * (1 - decay)


def _squared(gradient: Union[tf.Tensor, tf.IndexedSlices]) -> Union[tf.Tensor, tf.IndexedSlices]:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(tf.square(gradient.values), gradient.indices)
    return tf.square(gradient)
