"""Tells when a network overfits: the training loss falls while recall on held-out classes stays down."""

from collections.abc import Mapping
from typing import Any, Optional

# Recall varies by less than this between epochs of a run that does not overfit.
_MARGIN = 0.01
_EVALUATIONS = 5


class OverfittingWatch:
    """Follows loss and recall from evaluation to evaluation.

    Attributes:
        evaluations: Number of evaluations in a row, up to the last, with a recall at least 0.01 below the
            best one and a training loss below that of the best epoch.
    """

    def __init__(self) -> None:
        self.evaluations = 0
        self._best_loss: Optional[float] = None
        self._told = False

    def is_news(self, recall: float, best_recall: float, loss: float, is_best: bool) -> bool:
        """Takes an evaluation into account; returns True once, at the fifth of `evaluations`.

        Args:
            recall: A fraction, on classes that do not train.
            best_recall: The best one so far, this one included.
            loss: Mean training loss of the epoch.
            is_best: Whether this epoch is the best one so far.
        """
        if is_best or self._best_loss is None:
            # The untrained network has no loss: the first epoch's stands for it.
            self._best_loss = loss
        overfits = loss < self._best_loss and recall <= best_recall - _MARGIN
        self.evaluations = self.evaluations + 1 if overfits else 0
        if self._told or self.evaluations < _EVALUATIONS:
            return False
        self._told = True
        return True

    def note(self, monitored: str, best_epoch: float) -> str:
        """Returns what to tell the user."""
        return (
            f"The network overfits: the training loss falls, but {monitored} on held-out classes has been "
            f"below that of epoch {best_epoch:g} for {self.evaluations} evaluations. The weights of epoch "
            f"{best_epoch:g} are kept."
        )

    def state(self) -> dict[str, Any]:
        """Returns what a resumed run needs, as plain values for JSON."""
        return {"evaluations": self.evaluations, "best_loss": self._best_loss, "told": self._told}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Takes over what `state` returned."""
        self.evaluations, self._best_loss = state["evaluations"], state["best_loss"]
        self._told = state["told"]
