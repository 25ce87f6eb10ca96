"""Means over seeds and their 95 % intervals, by Student's t."""

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
    """

    mean: float
    half_width: Optional[float]
    count: int

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
    count = len(values)
    half_width = None
    if count > 1:
        quantile = stats.t.ppf((1 + CONFIDENCE) / 2, count - 1)
        half_width = float(quantile * np.std(values, ddof=1) / math.sqrt(count))
    return Estimate(float(np.mean(values)), half_width, count)


def paired_difference(one: dict, other: dict) -> Optional[Estimate]:
    """Returns the mean of one - other over the seeds that both have, with its interval, or None.

    Runs of equal seed share their initial weights, so their difference varies less than each of them.

    Args:
        one: Seed to value.
        other: Seed to value.
    """
    return estimate([one[seed] - other[seed] for seed in sorted(set(one) & set(other))])


def counts_text(found: list) -> str:
    """Returns "10", or "10 / 4 / 4" if those there are (`Estimate` or None) are of unequal counts."""
    counts = [str(item.count) for item in found if item]
    return counts[0] if len(set(counts)) == 1 else " / ".join(counts)
