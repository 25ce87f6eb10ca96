"""Confidence intervals of means over images, by resampling classes.

The images of a class are correlated, so resampling single images gives intervals that are too narrow.
Resampling whole classes estimates how the mean varies with other classes of the same kind.

Shapes: N images, L classes, S resamples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Union

import numpy as np

from profs_tf.metrics import arguments as inputs
from profs_tf.utils.array_types import Array, Labels
from profs_tf.utils.checks import check_count

# Classes drawn together.
_DRAWN = 1 << 22


class Interval(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


def class_bootstrap(
    values: Union[Array, Sequence[float]],
    labels: Labels,
    *,
    confidence: float = 0.95,
    num_resamples: int = 1000,
    seed: int = 0,
) -> Interval:
    """Percentile bootstrap interval of the mean of `values` (Efron and Tibshirani 1993, section 13.3).

    Each resample draws L classes with replacement and takes the mean over all their images.

    Args:
        values: `[N]`, for example `RetrievalResult.hits_at`.
        labels: `[N]`, integers or strings.
        confidence: Of the interval, in (0, 1).
        num_resamples: S.
        seed: Of the draws.

    Returns:
        The interval. O(N log N + S L).

    Raises:
        ValueError: If lengths differ, an argument is out of its range, or there are fewer than two classes.
    """
    values = np.asarray(values, np.float64)
    if values.ndim != 1 or not len(values):
        raise ValueError(f"`values` must have shape [N] with N >= 1, got {values.shape}.")
    if not np.isfinite(values).all():
        raise ValueError(f"`values` must be finite, got {values[~np.isfinite(values)][0]}.")
    if not 0 < confidence < 1:
        raise ValueError(f"`confidence` must be in (0, 1), got {confidence}.")
    check_count("num_resamples", num_resamples)
    check_count("seed", seed, minimum=0)
    classes, _ = inputs.class_numbers(inputs.check_labels(labels, len(values), of="values"))
    sizes = np.bincount(classes)
    if len(sizes) < 2:
        raise ValueError("`labels` must hold at least two classes to draw from, got 1.")
    means = _resampled_means(np.bincount(classes, values), sizes, num_resamples, np.random.default_rng(seed))
    return Interval(*np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2]).tolist())


def _resampled_means(
    sums: np.ndarray, sizes: np.ndarray, num: int, generator: np.random.Generator
) -> np.ndarray:
    """Means over the images of L classes drawn with replacement, float64 `[S]`."""
    means, step = [], max(1, _DRAWN // len(sizes))
    for start in range(0, num, step):
        drawn = generator.integers(len(sizes), size=(min(step, num - start), len(sizes)))
        means.append(sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1))
    return np.concatenate(means)
