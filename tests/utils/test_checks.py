import math

import numpy as np
import pytest

from profs_tf.utils.checks import (
    check_count,
    check_finite,
    check_finite_above,
    check_finite_at_least,
    check_one_of,
)


@pytest.mark.parametrize("value", [0, 2, 0.5, np.float32(0.5)])
def test_numbers_in_range_become_floats(value):
    for checked in (check_finite("x", value), check_finite_at_least("x", value, 0.0)):
        assert type(checked) is float
        assert checked == value


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_refused(value):
    with pytest.raises(ValueError, match=rf"^`x` must be finite, got {value}\.$"):
        check_finite("x", value)
    with pytest.raises(ValueError, match=rf"^`x` must be >= 0 and finite, got {value}\.$"):
        check_finite_at_least("x", value, 0.0)
    with pytest.raises(ValueError, match=rf"^`x` must be > 0\.5 and finite, got {value}\.$"):
        check_finite_above("x", value, 0.5)


def test_bounds():
    assert check_finite_at_least("x", 1.5, 1.5) == 1.5
    with pytest.raises(ValueError, match="`x` must be >= 1.5 and finite, got 1.4"):
        check_finite_at_least("x", 1.4, 1.5)
    assert check_finite_above("x", 1.6, 1.5) == 1.6
    with pytest.raises(ValueError, match="`x` must be > 1.5 and finite, got 1.5"):
        check_finite_above("x", 1.5, 1.5)


def test_counts_are_whole_numbers():
    assert type(check_count("n", np.int64(3))) is int
    for value in (0, 1.5, 2.0, True, np.bool_(True), None, "3"):
        with pytest.raises(ValueError, match=f"`n` must be a whole number >= 1, got {value!r}. Count them."):
            check_count("n", value, "Count them.")
    with pytest.raises(ValueError, match=r"`n` must be a whole number >= 2, got 1\.$"):
        check_count("n", 1, minimum=2)


def test_one_of_lists_the_valid_values():
    assert check_one_of("mining", "hard", ("hard", "semi_hard")) == "hard"
    with pytest.raises(ValueError, match=r"^`mining` must be one of hard, semi_hard, got 'soft'\.$"):
        check_one_of("mining", "soft", ("hard", "semi_hard"))
