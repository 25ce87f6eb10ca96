"""Range checks of arguments, with one wording: `argument` rule, got value."""

import math
import numbers
from collections.abc import Collection
from typing import Any


def check_finite(argument: str, value: float) -> float:
    """Returns ``value`` as a float; raises ValueError unless it is finite."""
    if not math.isfinite(value):
        raise ValueError(f"`{argument}` must be finite, got {value}.")
    return float(value)


def check_finite_at_least(argument: str, value: float, bound: float) -> float:
    """Returns ``value`` as a float; raises ValueError unless it is finite and ``>= bound``."""
    if not math.isfinite(value) or value < bound:
        raise ValueError(f"`{argument}` must be >= {bound:g} and finite, got {value}.")
    return float(value)


def check_finite_above(argument: str, value: float, bound: float) -> float:
    """Returns ``value`` as a float; raises ValueError unless it is finite and ``> bound``."""
    if not math.isfinite(value) or value <= bound:
        raise ValueError(f"`{argument}` must be > {bound:g} and finite, got {value}.")
    return float(value)


def check_count(argument: str, value: Any, cure: str = "", minimum: int = 1) -> int:
    """Returns an integer of Python or NumPy as an int.

    Raises:
        ValueError: Unless it is a whole number ``>= minimum``, which True and 4.0 are not; ``cure`` ends the
            message.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < minimum:
        message = f"`{argument}` must be a whole number >= {minimum}, got {value!r}."
        raise ValueError(f"{message} {cure}" if cure else message)
    return int(value)


def check_one_of(argument: str, value: Any, valid: Collection[str]) -> str:
    """Returns ``value``; raises ValueError, with the valid values, unless it is one of ``valid``."""
    if value not in valid:
        raise ValueError(f"`{argument}` must be one of {', '.join(valid)}, got {value!r}.")
    return value
