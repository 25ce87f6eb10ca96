"""Exit codes of the commands, which errors lead to which, and the line that is shown.

0    success
1    the run or the machine failed: loss not finite, disk full, no network
2    usage error: a flag, a value, missing data
130  interrupted by Ctrl-C or SIGTERM
141  the reader of the output closed it, as head does
"""

import re
from typing import Optional

import tensorflow as tf
from absl import flags

from profs_tf.utils.errors import first_line
from profs_tf.utils.forks import ForkedProcessError

FAILURE = 1
USAGE_ERROR = 2
INTERRUPTED = 130
OUTPUT_CLOSED = 141


class InterruptedRunError(Exception):
    """A run was interrupted after its state had been saved; the message says how to resume it."""


class FailedRunError(Exception):
    """A run failed; the message is the whole explanation."""


# What the user can correct: a value, a name, a path.
USER_ERRORS = (ValueError, FileNotFoundError, FileExistsError, NotADirectoryError, PermissionError)
# What the machine causes: a full disk, no memory, an unreachable server. TensorFlow reads and writes files
# itself and raises classes of its own.
_MACHINE_ERRORS = (
    OSError,
    tf.errors.ResourceExhaustedError,
    tf.errors.OutOfRangeError,
    tf.errors.PermissionDeniedError,
    tf.errors.NotFoundError,
    tf.errors.DataLossError,
)

_ARGUMENT = re.compile(r"`(\w+)(?:=([^`]*))?`")
# Arguments of Python functions whose flag has another name.
_FLAG_OF_ARGUMENT = {
    "crop": "image_crop",
    "path": "dataset",
    "aspect": "image_aspect",
    "resize": "image_resize",
    "shift": "image_shift",
}


def exit_code_of(error: BaseException) -> Optional[int]:
    """Returns the exit code for an error; None for one that deserves its stack trace."""
    if isinstance(error, (InterruptedRunError, KeyboardInterrupt)):
        return INTERRUPTED
    if isinstance(error, USER_ERRORS):
        return USAGE_ERROR
    if isinstance(error, (ArithmeticError, FailedRunError, ForkedProcessError, *_MACHINE_ERRORS)):
        return FAILURE
    return None


def error_line(error: BaseException, values: flags.FlagValues) -> str:
    """Returns what the user is told of an error that has an exit code."""
    if isinstance(error, _MACHINE_ERRORS) and not isinstance(error, USER_ERRORS):
        return first_line(error)
    return with_flag_names(str(error), values)


def with_flag_names(message: str, values: flags.FlagValues) -> str:
    """Returns a message with the names of flags in place of the arguments that they set.

    `batch_size` in backticks becomes --batch_size, `allow_partial_data=True` becomes --allow_partial_data,
    and `boundary` becomes --margin_boundary under --loss=margin. Names without a flag stay as they are.
    """

    def replace(match: "re.Match[str]") -> str:
        name, value = match.groups()
        of_loss = f"{values['loss'].value}_{name}" if "loss" in values else name
        for flag in (name, of_loss, _FLAG_OF_ARGUMENT.get(name, name)):
            if flag in values:
                return _written(values[flag], value)
        return match[0]

    return _ARGUMENT.sub(replace, message)


def _written(flag: flags.Flag, value: Optional[str]) -> str:
    if value is None or (flag.boolean and value == "True"):
        return f"--{flag.name}"
    return f"--no{flag.name}" if flag.boolean else f"--{flag.name}={value}"
