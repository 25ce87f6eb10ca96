"""The callback that lowers the learning rate when recall on held-out classes no longer rises."""

from collections.abc import Mapping
from typing import Any, Optional

import tensorflow as tf


class PlateauSchedule(tf.keras.callbacks.Callback):
    """Multiplies the learning rate by a factor after so many evaluations without a better metric.

    *Differs* from ``tf.keras.callbacks.ReduceLROnPlateau``: epochs without an evaluation do not count, and a
    run resumes with `state`. The rate itself is in the optimizer's checkpoint. Must come after the callback
    that evaluates.
    """

    def __init__(self, monitored: str, factor: float, wait: int, verbose: bool = True) -> None:
        """Sets the rule.

        Args:
            monitored: Name in the epoch's logs; higher is better.
            factor: Of the learning rate at a drop.
            wait: Evaluations without a better value before a drop.
            verbose: Whether to print a line for each drop.
        """
        super().__init__()
        self._monitored = monitored
        self._factor = factor
        self._wait = wait
        self._verbose = verbose
        self._best: Optional[float] = None
        self._since_best = 0

    def on_epoch_end(self, epoch: int, logs: Optional[dict[str, float]] = None) -> None:
        """Takes an evaluation into account."""
        value = (logs or {}).get(self._monitored)
        if value is None:
            return
        if self._best is None or value > self._best:
            self._best, self._since_best = float(value), 0
            return
        self._since_best += 1
        if self._since_best >= self._wait:
            self._since_best = 0
            rate = float(tf.convert_to_tensor(self.model.optimizer.learning_rate)) * self._factor
            self.model.optimizer.learning_rate = rate
            if self._verbose:
                print(f"Epoch {epoch + 1}: {self._monitored} is on a plateau; new rate {rate:g}.", flush=True)

    def state(self) -> dict[str, Any]:
        """Returns what a resumed run needs, as plain values for JSON."""
        return {"best": self._best, "since_best": self._since_best}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Takes over what `state` returned."""
        self._best, self._since_best = state["best"], state["since_best"]
