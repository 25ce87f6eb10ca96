"""The learning rate that stands for a whole schedule, read from its configuration and never from a call.

An absolute rate, such as that of a loss's own variables, becomes a multiplier by dividing by it. A call would
return the warm-up's first value, which may be 0 or thousands of times too small.
"""

from collections.abc import Callable
from typing import Any, Optional, Union

import tensorflow as tf

LearningRate = Union[float, tf.Tensor, tf.keras.optimizers.schedules.LearningRateSchedule]

# The highest rate of each schedule of Keras, None if it grows without end. Subclasses are left out: they may
# return anything.
_PEAKS: dict[type, Callable[[Any], Optional[float]]] = {
    tf.keras.optimizers.schedules.CosineDecay: lambda s: max(s.initial_learning_rate, s.warmup_target or 0.0),
    tf.keras.optimizers.schedules.CosineDecayRestarts: lambda s: _unless(s._m_mul > 1, s),
    tf.keras.optimizers.schedules.ExponentialDecay: lambda s: _unless(s.decay_rate > 1, s),
    tf.keras.optimizers.schedules.InverseTimeDecay: lambda s: _unless(s.decay_rate < 0, s),
    tf.keras.optimizers.schedules.PiecewiseConstantDecay: lambda s: max(s.values),
    tf.keras.optimizers.schedules.PolynomialDecay: lambda s: max(
        s.initial_learning_rate, s.end_learning_rate
    ),
}


def reference_of(learning_rate: LearningRate) -> Optional[float]:
    """Returns a constant rate as it is, the peak of a schedule of Keras, None for another schedule."""
    if isinstance(learning_rate, tf.keras.optimizers.schedules.LearningRateSchedule):
        peak = _PEAKS.get(type(learning_rate))
        found = None if peak is None else peak(learning_rate)
        return None if found is None else float(found)
    return float(tf.convert_to_tensor(learning_rate))


def _unless(grows: bool, schedule: Any) -> Optional[float]:
    return None if grows else schedule.initial_learning_rate


def check_reference(reference: Optional[float], rate: float) -> float:
    """Returns the reference rate; raises ValueError if an absolute rate has none to be divided by."""
    if not reference:
        raise ValueError(
            "`reference_learning_rate` must be given with a learning rate of 0 and with a schedule that "
            f"grows or is not Keras's, got none for the absolute rate {rate}. Pass the highest rate that it "
            "reaches."
        )
    return reference
