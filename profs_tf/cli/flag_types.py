"""Defines single flags by their Python type, and checks the values before any work begins."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from absl import flags

from profs_tf.utils.files import check_file_output, check_folder_output, expanded


def define_flag(
    values: flags.FlagValues,
    name: str,
    kind: type,
    default: Any,
    text: str,
    choices: tuple[str, ...] = (),
    group: str = "Flags",
) -> None:
    """Defines one flag.

    Args:
        values: The flags that it is added to.
        name: Of the flag.
        kind: bool, int, float or str; tuple for values separated by commas; list for a flag that is repeated,
            each value verbatim.
        default: Its value when it is not set.
        text: Help.
        choices: The valid values, if they are few.
        group: Title under which --help lists it.
    """
    # absl lists flags by the module that defines them, which is where a title has its place.
    options: dict[str, Any] = {"flag_values": values, "module_name": group}
    if choices:
        flags.DEFINE_enum(name, default, list(choices), text, **options)
        # absl puts the choices in front of the text; our help shows them with the name.
        values[name].help = text
    elif kind is tuple:
        items = [str(value) for value in default]
        flags.DEFINE_list(name, items, f"{text} Separated by commas.", **options)
    elif kind is list:
        flags.DEFINE_multi_string(name, list(default), f"{text} May be repeated.", **options)
    else:
        define_by_kind: dict[type, Callable[..., Any]] = {
            bool: flags.DEFINE_boolean,
            int: flags.DEFINE_integer,
            float: flags.DEFINE_float,
            str: flags.DEFINE_string,
        }
        define_by_kind[kind](name, default, text, **options)


def illegal_value(error: flags.IllegalFlagValueError, values: flags.FlagValues) -> str:
    """Returns the message for a value that a flag cannot take; absl's own quotes errors of Python."""
    name, given = str(error)[len("flag --") :].split(": ")[0].split("=", 1)
    choices = getattr(values[name].parser, "enum_values", None)
    rules = {"int": "a whole number", "float": "a number", "bool": "true or false"}
    rule = (
        f"one of {', '.join(choices)}"
        if choices
        else rules.get(values[name].flag_type(), "values separated by commas")
    )
    return f"--{name} must be {rule}, got {given!r}."


def refuse_without(values: flags.FlagValues, owner: str, *names: str) -> None:
    """Raises ValueError if a flag is set that has no effect without another one, which is not."""
    for name in names:
        if values[name].present:
            raise ValueError(
                f"`{name}` must be left out without `{owner}`, got {values[name].value}. Pass both."
            )


def is_path(text: str) -> bool:
    """Whether a text names a file or folder that exists; a leading ~ is the home folder."""
    return os.path.exists(os.path.expanduser(text))


def split_at_commas(texts: Iterable[str], is_one: Callable[[str], bool] = is_path) -> list[str]:
    """Returns the values of a repeated flag, splitting at commas those that are not one value themselves.

    `--query="a,b.jpg"` is the file of that name if there is one, and otherwise the files `a` and `b.jpg`; the
    same holds for each part of a longer list, the longest first.

    Args:
        texts: The values as given.
        is_one: Whether a text with commas in it is one value.
    """
    values = []
    for text in texts:
        parts = text.split(",")
        while parts:
            lengths = range(len(parts), 1, -1)
            length = next((n for n in lengths if is_one(",".join(parts[:n]))), 1)
            values.append(",".join(parts[:length]))
            del parts[:length]
    return [value for value in values if value]


def read_lines(argument: str, path: str) -> list[str]:
    """Returns the lines of the text file that a flag names, without the empty ones; "-": standard input.

    Raises:
        ValueError: If the file cannot be read, or is not UTF-8 text.
    """
    try:
        content = sys.stdin.buffer.read() if path == "-" else expanded(path).read_bytes()
        text = content.decode("utf-8-sig")
        if "\0" in text:
            raise UnicodeError("it has zero bytes")
        # Not splitlines, which also splits at characters that file names may have, such as U+2028.
        lines = (line.removesuffix("\r") for line in text.split("\n"))
        return [line for line in lines if line.strip()]
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"`{argument}` must be a text file in UTF-8, got {path}: {reason}.") from error


def check_values(
    values: flags.FlagValues,
    least: Mapping[str, int],
    files: Sequence[str] = (),
    folders: Sequence[str] = (),
) -> None:
    """Rejects, before any work, values that would be rejected after it; expands ~ in paths to write.

    Args:
        values: The parsed flags.
        least: Flag to the smallest number that it may have.
        files: Flags that name a file to write.
        folders: Flags that name a folder to create or to write into.

    Raises:
        ValueError: If a number is too small, or two outputs have one path.
        NotADirectoryError, PermissionError: If an output cannot be written.
    """
    for name, minimum in least.items():
        number: Any = values[name].value
        if number < minimum:
            raise ValueError(f"`{name}` must be >= {minimum}, got {number}.")
    for names, check in ((files, check_file_output), (folders, check_folder_output)):
        for name in names:
            path = values[name].value
            if path:
                check(name, path)
                # A shell leaves the ~ of --output=~/one.csv as it is.
                values[name].value = os.path.expanduser(path)
    written: dict[str, str] = {}
    for name in (*files, *folders):
        path = values[name].value
        first = written.setdefault(os.path.abspath(path), name) if path else name
        if first != name:
            raise ValueError(f"`{name}` must be another path than `{first}`, got {path} for both.")
