"""Runs a command: parses its flags, starts it quietly, and exits with the code that tells how it went."""

import contextlib
import logging as standard_logging
import signal
import sys
from types import FrameType
from typing import Callable, NoReturn, Optional

from absl import flags, logging

from profs_tf.cli.exit_codes import INTERRUPTED, OUTPUT_CLOSED, USAGE_ERROR, error_line, exit_code_of
from profs_tf.cli.flag_help import help_text
from profs_tf.cli.flag_types import illegal_value
from profs_tf.utils import output
from profs_tf.utils.signals import handling


def run(
    main: Callable[[flags.FlagValues], None], define_flags: Callable[[flags.FlagValues], None], usage: str
) -> None:
    """Parses the command line, runs `main`, and exits with one of `cli.exit_codes` unless it succeeds.

    The flags are kept apart from absl's global ones, to which every imported library adds its own.

    Args:
        main: The command; takes the parsed flags.
        define_flags: Defines the command's flags.
        usage: What the command does, with examples; --help prints it above the flags.
    """
    _start_logging()
    values = flags.FlagValues()
    define_flags(values)
    flags.DEFINE_boolean(
        "help", False, "Show this text.", flag_values=values, short_name="h", module_name="Help"
    )
    name = f"{usage.split()[0]} "
    try:
        rest = values(sys.argv)[1:]
        if rest:
            raise flags.Error(f"Unexpected argument {rest[0]!r}: options are given as --name=value.")
    except flags.IllegalFlagValueError as error:
        _exit(f"{name}{illegal_value(error, values)}", USAGE_ERROR)
    except flags.CantOpenFlagFileError as error:
        reason = str(error).split("flagfile: ")[-1]
        rule = "--flagfile must be readable, relative to the working directory also within a flag file"
        _exit(f"{name}{rule}, got {reason}.", USAGE_ERROR)
    except (flags.Error, OSError, ValueError) as error:
        # absl raises ValueError for a value given to --noNAME.
        _exit(f"{name}{error}\nTry --help.", USAGE_ERROR)
    if values.help:
        _show(help_text(usage, values))
        return
    try:
        # SIGTERM does what Ctrl-C does.
        with handling((signal.SIGTERM,), _interrupt):
            main(values)
            # Here: an error when Python ends would not be caught.
            _flush()
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, BrokenPipeError) and output.is_closed():
            sys.exit(OUTPUT_CLOSED)
        code = exit_code_of(error)
        if code is None:
            raise
        logging.debug("The error in full:", exc_info=True)
        if code == INTERRUPTED:
            # On a line of its own, below a progress bar.
            _exit(f"\n{str(error) or 'Interrupted.'}", code)
        _exit(f"{name}{error_line(error, values)}", code)
    finally:
        if output.is_closed():
            output.drop()


def _show(text: str) -> None:
    """Prints a text for a reader who may close the pipe before its end."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        output.drop()


def _flush() -> None:
    # None where the output was closed before the start.
    if sys.stdout is not None:
        sys.stdout.flush()


def _interrupt(number: int, frame: Optional[FrameType]) -> NoReturn:
    raise KeyboardInterrupt


def _start_logging() -> None:
    flags.FLAGS.mark_as_parsed()
    logging.use_absl_handler()
    logging.set_verbosity(logging.WARNING)
    # Saving a model alone gives half a dozen warnings that no user can act on.
    standard_logging.getLogger("tensorflow").setLevel(standard_logging.ERROR)


def _exit(message: str, code: int) -> NoReturn:
    # The reader of the errors may be gone, too.
    with contextlib.suppress(BrokenPipeError):
        print(message, file=sys.stderr, flush=True)
    sys.exit(code)
