import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profs_tf.sampling.projection_schedule import Schedule, classes_in_batch, derive_steps_per_projection


@pytest.mark.parametrize(("num_classes", "steps"), [(100, 10), (98, 10), (11318, 1062)])
def test_rule_gives_the_papers_steps(num_classes, steps):
    classes = classes_in_batch(128, 2, num_classes)
    assert derive_steps_per_projection(num_classes, classes, 6) == steps


@given(st.integers(1, 10**6), st.integers(1, 10**4), st.integers(1, 100))
def test_rule_is_the_exact_ceiling(num_classes, classes, uses):
    steps = derive_steps_per_projection(num_classes, classes, uses)
    assert (steps - 1) * classes < uses * num_classes <= steps * classes
    assert steps == math.ceil(uses * num_classes / classes)


@given(st.integers(1, 500), st.integers(0, 10**6))
def test_projection_index_counts_the_beginnings(steps_per_projection, step):
    schedule = Schedule(steps_per_projection)
    begun = step // steps_per_projection
    assert schedule.projection_index(step) == begun
    assert schedule.begins_projection(step) == (step - begun * steps_per_projection == 0)


@pytest.mark.parametrize("steps_per_execution", [1, 2, 5, 10])
def test_divisors_are_taken(steps_per_execution):
    Schedule(10).check_strides(steps_per_execution)


@pytest.mark.parametrize("steps_per_execution", [0, 3, 4, 20])
def test_others_are_refused(steps_per_execution):
    with pytest.raises(
        ValueError, match=rf"must divide .* = 10, got {steps_per_execution}; possible are 1, 2, 5, 10"
    ):
        Schedule(10).check_strides(steps_per_execution)


def test_epochs_must_hold_whole_executions():
    Schedule(10).check_strides(5, 20)
    with pytest.raises(ValueError, match="`steps_per_epoch` must be a multiple of .* = 5, got 12"):
        Schedule(10).check_strides(5, 12)


def test_executions_begin_where_projections_can():
    Schedule(10).check_strides(5, 20, first_step=15)
    with pytest.raises(ValueError, match="must divide the 12 steps that the model has taken, got 5"):
        Schedule(10).check_strides(5, 20, first_step=12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Schedule(0), "`steps_per_projection` must be a whole number >= 1"),
        (lambda: derive_steps_per_projection(0, 1, 1), "`num_classes` must be a whole number >= 1"),
        (lambda: derive_steps_per_projection(1, 0, 1), "`classes_per_batch` must be a whole number >= 1"),
        (lambda: derive_steps_per_projection(1, 1, 0), "`representative_uses` must be a whole number >= 1"),
        (lambda: classes_in_batch(128, 0, 5), "`images_per_class` must be a whole number >= 1"),
        (lambda: classes_in_batch(127, 2, 5), "`batch_size` must be a multiple .* = 2, got 127; .* 128"),
        (lambda: classes_in_batch(0, 2, 5), "`batch_size` must be a whole number >= 1"),
    ],
)
def test_out_of_range_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
