"""Means over seeds with their 95 % intervals, by Student's t, and which of many differ from zero."""

from __future__ import annotations

import dataclasses
import math
from typing import Optional

import numpy as np
from scipy import stats

CONFIDENCE = 0.95


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A mean over seeds.

    Attributes:
        mean: Of the values.
        half_width: Half of the interval's width; None for fewer than two values.
        count: Number of values.
        p_value: Of a mean of zero, two-sided; None for fewer than two values.
    """

    mean: float
    half_width: Optional[float]
    count: int
    p_value: Optional[float] = None

    def text(self, signed: bool = False) -> str:
        """Returns "53.58 ± 0.71", or the mean alone if there is no interval."""
        mean = f"{self.mean:+.2f}" if signed else f"{self.mean:.2f}"
        return mean if self.half_width is None else f"{mean} ± {self.half_width:.2f}"


def estimate(values: list) -> Optional[Estimate]:
    """Returns the mean with its interval; None for no values.

    half_width = t(0.975, n - 1) * s / sqrt(n), with s the standard deviation over n - 1.
    """
    if not values:
        return None
    count, mean = len(values), float(np.mean(values))
    if count == 1:
        return Estimate(mean, None, count)
    error = float(np.std(values, ddof=1)) / math.sqrt(count)
    quantile = stats.t.ppf((1 + CONFIDENCE) / 2, count - 1)
    with np.errstate(divide="ignore"):
        statistic = np.divide(abs(mean), error) if mean else 0.0
    p_value = float(2 * stats.t.sf(statistic, count - 1))
    return Estimate(mean, float(quantile * error), count, p_value)


def paired_difference(one: dict, other: dict) -> Optional[Estimate]:
    """Returns the mean of one - other over the seeds that both have, with its interval, or None.

    Runs of equal seed share the draws of their batches, and random initial weights.

    Args:
        one: Seed to value.
        other: Seed to value.
    """
    return estimate([one[seed] - other[seed] for seed in sorted(set(one) & set(other))])


def significant_together(found: list) -> list[bool]:
    """Returns which `Estimate` or None differ from zero by Holm's (1979) correction for their number.

    With it the chance that any of them is named although all means are zero is at most 5 %.
    """
    order = sorted(
        (item.p_value, index) for index, item in enumerate(found) if item and item.p_value is not None
    )
    named = [False] * len(found)
    for position, (p_value, index) in enumerate(order):
        if p_value > (1 - CONFIDENCE) / (len(order) - position):
            break
        named[index] = True
    return named


def counts_text(found: list) -> str:
    """Returns "10", or "10 / 4 / 4" if those there are (`Estimate` or None) are of unequal counts."""
    counts = [str(item.count) for item in found if item]
    return counts[0] if len(set(counts)) == 1 else " / ".join(counts)
