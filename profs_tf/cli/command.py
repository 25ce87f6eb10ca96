"""What the commands share: quiet start, flag errors with the valid values, exit codes.

Exit codes: 0 done, 1 failed, 2 bad use (a flag, a value, missing data), 130 interrupted by Ctrl-C or SIGTERM.
"""

import contextlib
import logging as standard_logging
import signal
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Callable, Optional

import tensorflow as tf
from absl import flags, logging

from profs_tf.utils.errors import first_line

FAILED = 1
BAD_USE = 2
INTERRUPTED = 130

# What a user can put right: a value, a name, a path.
USER_ERRORS = (ValueError, FileNotFoundError, FileExistsError, NotADirectoryError, PermissionError)
# What the machine refuses: a full disk, memory, a server that cannot be reached. TensorFlow writes and reads
# files by itself and has its own names for it.
_MACHINE_ERRORS = (
    OSError,
    tf.errors.ResourceExhaustedError,
    tf.errors.OutOfRangeError,
    tf.errors.PermissionDeniedError,
    tf.errors.NotFoundError,
    tf.errors.DataLossError,
)


class InterruptedRunError(Exception):
    """A run was interrupted after it had saved its state; the message says how to go on."""


class FailedRunError(Exception):
    """A run failed for a reason that the message tells in full."""


def run(
    main: Callable[[flags.FlagValues], None], define_flags: Callable[[flags.FlagValues], None], usage: str
) -> None:
    """Parses the command line, runs `main` and exits with the code that tells how it went.

    The flags are kept apart from the global ones, among which every imported library has its own.

    Args:
        main: the command; takes the parsed flags.
        define_flags: defines the command's flags.
        usage: what the command does, with examples; printed above the flags by --help.
    """
    _start_logging()
    values = flags.FlagValues()
    define_flags(values)
    flags.DEFINE_boolean("help", False, "Show this text.", flag_values=values, short_name="h")
    name = f"{usage.split()[0]} "
    try:
        rest = values(sys.argv)[1:]
        if rest:
            raise flags.Error(f"Unexpected argument {rest[0]!r}: options are given as --name=value.")
    except (flags.Error, OSError, ValueError) as error:
        # ValueError: of absl, for a value given to --noNAME.
        _exit(f"{name}{error}\nTry --help.", BAD_USE)
    if values.help:
        print(f"{usage.strip()}\n\nFlags:\n{describe_flags(values)}")
        return
    try:
        with _terminated_as_interrupted():
            main(values)
    except (InterruptedRunError, KeyboardInterrupt) as error:
        # On a line of its own, below a progress bar.
        _exit(f"\n{str(error) or 'Interrupted.'}", INTERRUPTED)
    except USER_ERRORS as error:
        logging.debug("The error in full:", exc_info=True)
        _exit(f"{name}{error}", BAD_USE)
    except (ArithmeticError, FailedRunError) as error:
        _exit(f"{name}{error}", FAILED)
    except _MACHINE_ERRORS as error:
        logging.debug("The error in full:", exc_info=True)
        _exit(f"{name}{first_line(error)}", FAILED)


def check_values(values: flags.FlagValues, least: dict, files: tuple) -> None:
    """Refuses before long work what would be refused after it.

    Args:
        values: the parsed flags.
        least: flag -> the least whole number that it takes.
        files: flags that name a file to write, if they are given.

    Raises:
        ValueError: for the first of them that is wrong.
    """
    for name, minimum in least.items():
        if values[name].value < minimum:
            raise ValueError(f"`{name}` must be >= {minimum}, got {values[name].value}.")
    for name in files:
        path = values[name].value
        if path and (Path(path).is_dir() or not Path(path).absolute().parent.is_dir()):
            raise ValueError(f"`{name}` must be a file in a folder that exists, got {path}. Make the folder.")


@contextlib.contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Within it SIGTERM does what Ctrl-C does."""

    def interrupt(number: int, frame: Optional[FrameType]) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def describe_flags(values: flags.FlagValues) -> str:
    """Returns the help of all flags in the order of their definition."""
    lines = []
    for module_flags in values.flags_by_module_dict().values():
        for flag in module_flags:
            if flag.help.startswith("(special)"):
                continue
            name = f"  --[no]{flag.name}" if flag.boolean else f"  --{flag.name}={_placeholder(flag)}"
            written = flag.default_as_str
            default = "" if written is None or flag.default == "" else f" Default: {written.strip(chr(39))}."
            text = textwrap.fill(
                f"{flag.help}{default}", 100, initial_indent=" " * 6, subsequent_indent=" " * 6
            )
            lines.append(f"{name}\n{text}")
    lines.append("  --flagfile=FILE\n      Read flags from a file, one a line; files may name others.")
    return "\n".join(lines)


def _placeholder(flag: flags.Flag) -> str:
    choices = getattr(flag.parser, "enum_values", None)
    return "|".join(choices) if choices else flag.flag_type().upper().replace("STRING", "TEXT")


def _start_logging() -> None:
    flags.FLAGS.mark_as_parsed()
    logging.use_absl_handler()
    logging.set_verbosity(logging.WARNING)
    # Saving a model alone gives half a dozen warnings that no user can act on.
    standard_logging.getLogger("tensorflow").setLevel(standard_logging.ERROR)


def _exit(message: str, code: int) -> None:
    print(message, file=sys.stderr, flush=True)
    sys.exit(code)
