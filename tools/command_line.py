"""Usage errors of the tools: one line with the tool's own flags, and an exit code of the commands.

Also the place of the repository, and the checks of paths that several tools make before they begin.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from absl import flags

from profs_tf.cli.exit_codes import error_line, exit_code_of
from profs_tf.utils.files import check_folder_output

ROOT = Path(__file__).resolve().parent.parent
"""The repository."""


def explain(error: Exception, tool: str, arguments: argparse.Namespace) -> int:
    """Prints what went wrong as one line and returns the exit code of the tool.

    Args:
        error: What the tool raised. `name` in its message becomes --name if the tool has this flag.
        tool: The path of its file.
        arguments: What its parser returned.

    Raises:
        Exception: `error`, if it is a fault of the tool, which deserves its stack trace.
    """
    code = exit_code_of(error)
    if code is None:
        raise error
    print(f"{Path(tool).stem}: {error_line(error, _flags_of(arguments))}", file=sys.stderr, flush=True)
    return code


def run_steps(parsed: argparse.Namespace, tool: str, *steps: Callable) -> int:
    """Calls the steps of a tool, each with its arguments, and returns its exit code."""
    try:
        for step in steps:
            step(parsed)
    except Exception as error:
        return explain(error, tool, parsed)
    return 0


def _flags_of(arguments: argparse.Namespace) -> flags.FlagValues:
    values = flags.FlagValues()
    for name, value in vars(arguments).items():
        define = flags.DEFINE_boolean if isinstance(value, bool) else flags.DEFINE_string
        define(name, None, "", flag_values=values)
    return values


def check_input_file(argument: str, path: Path, cure: str) -> None:
    """Raises ValueError unless a file can be read at a path."""
    if not path.is_file():
        found = "a folder" if path.is_dir() else "which does not exist"
        raise ValueError(f"`{argument}` must be a file, got {path}, {found}. {cure}")
    if not os.access(path, os.R_OK):
        raise ValueError(f"`{argument}` must be readable, got {path}: Permission denied. {cure}")


def check_input_folder(argument: str, path: Path, cure: str) -> None:
    """Raises ValueError unless there is a folder at a path."""
    if not path.is_dir():
        found = "a file" if path.exists() else "which does not exist"
        raise ValueError(f"`{argument}` must be a folder, got {path}, {found}. {cure}")


def check_output_file(argument: str, path: Path) -> None:
    """Raises unless a file can be written at a path, whose folders may not exist yet.

    Args:
        argument: Name of the argument in the error message.
        path: Of the file.

    Raises:
        ValueError: If the path is a folder.
        NotADirectoryError: If a part of it is a file.
        PermissionError: If it cannot be written.
    """
    if path.is_dir():
        raise ValueError(f"`{argument}` must be a file, got {path}, a folder. Choose another name.")
    nearest = next(part for part in path.absolute().parents if os.path.lexists(part))
    if not nearest.is_dir():
        raise NotADirectoryError(
            f"`{argument}` must be a file in a folder, got {path}: {nearest} is a file. Choose another."
        )
    check_folder_output(argument, path.parent)
