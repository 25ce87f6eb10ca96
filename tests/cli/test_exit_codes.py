import pytest
import tensorflow as tf
from absl import flags

from profs_tf.cli import config_flags
from profs_tf.cli.exit_codes import (
    FailedRunError,
    InterruptedRunError,
    error_line,
    exit_code_of,
    with_flag_names,
)


@pytest.fixture
def values():
    values = flags.FlagValues()
    config_flags.define(values)
    values(["train", "--loss=contrastive"])
    return values


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("x"), 2),
        (FileNotFoundError("x"), 2),
        (OSError(28, "No space left on device"), 1),
        (FloatingPointError("x"), 1),
        (FailedRunError("x"), 1),
        (tf.errors.ResourceExhaustedError(None, None, "x"), 1),
        (InterruptedRunError("x"), 130),
        (KeyboardInterrupt(), 130),
        (TypeError("a fault of ours keeps its stack trace"), None),
    ],
)
def test_every_error_has_one_exit_code(error, code):
    assert exit_code_of(error) == code


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("`batch_size` must be >= 1.", "--batch_size must be >= 1."),
        ("Pass `allow_partial_data=True`.", "Pass --allow_partial_data."),
        ("Pass `mirror=False` or `seed=3`.", "Pass --nomirror or --seed=3."),
        ("`margin` must be >= 0", "--contrastive_margin must be >= 0"),
        ("`crop` must be <= `resize` = 24", "--image_crop must be <= --image_resize = 24"),
        ("`path` must be a folder, got a.", "--dataset must be a folder, got a."),
        ("`name` and `boundary` are no flags here", "`name` and `boundary` are no flags here"),
    ],
)
def test_messages_name_the_flag_in_place_of_the_argument(message, shown, values):
    assert with_flag_names(message, values) == shown
    assert error_line(ValueError(message), values) == shown
