"""Where a projection of CCP ends: the score on validation classes has not risen for so many evaluations.

With patience P = 2:

    score       0.50   0.60   0.60   0.58   0.57   0.61
    is best      yes    yes     no     no    yes    yes
    stale          0      0      1      2      0      0
    projection     0      0      0      0      1      1

The third and fourth score are not above the second, and projection 0 ends. The first score of a projection is
always its best so far: scores of earlier projections do not count.
"""

from collections.abc import Mapping
from typing import Any

from profs_tf.utils.checks import check_count

# The score must rise by more than this.
MIN_RISE = 1e-5


class ScorePlateau:
    """The scores of the present projection.

    Attributes:
        patience: P, the evaluations in a row without a better score after which the projection ends.
    """

    def __init__(self, patience: int) -> None:
        """Begins a projection; raises ValueError unless `patience` is a whole number >= 1."""
        self.patience = check_count("patience", patience)
        self.begin()

    def begin(self) -> None:
        """Begins the next projection, without a score."""
        self._best = float("-inf")
        self._stale = 0

    @property
    def has_ended(self) -> bool:
        """Whether the scores taken end the projection."""
        return self._stale >= self.patience

    def take(self, score: float) -> bool:
        """Takes a score, higher is better; returns whether it is the projection's best one."""
        if score > self._best + MIN_RISE:
            self._best, self._stale = float(score), 0
            return True
        self._stale += 1
        return False

    def state(self) -> dict[str, Any]:
        """Returns what a resumed run needs, as plain values for JSON."""
        return {"best_score": self._best, "stale": self._stale}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Takes over what `state` returned."""
        self._best, self._stale = state["best_score"], state["stale"]
