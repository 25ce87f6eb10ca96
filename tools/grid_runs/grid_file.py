"""Grid files: rows, data sets, seeds and axes, and the runs that they define."""

from __future__ import annotations

import dataclasses
import itertools
import re
from pathlib import Path

import yaml
from absl import flags
from command_line import check_input_file

from profs_tf import train
from profs_tf.cli import config_flags
from profs_tf.config import Config

_KEYS = {"data_sets", "rows", "seeds", "axes", "flags"}
_ROW_KEYS = {"flags", "table", "method"}
# The name of the setting that no axis changes.
DEFAULT_SETTING = "default"
# Flags that the grid sets for each run.
_OWN_FLAGS = ("seed", "output_dir", "resume", "noresume")


class _Loader(yaml.SafeLoader):
    """Refuses duplicate keys, of which YAML would silently keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key!r} is there twice", node.start_mark
                )
        return super().construct_mapping(node, deep)


@dataclasses.dataclass(frozen=True)
class Run:
    """One training of a grid.

    Attributes:
        row: The row's name in the grid file.
        table: The paper's table that has the row.
        method: The row's name there.
        dataset: The data set's name there, or its own.
        setting: The values of the axes, such as "M=10"; empty for the default setting.
        seed: The run's seed.
        flags: Flags of the train command, without seed and folder.
    """

    row: str
    table: str
    method: str
    dataset: str
    setting: str
    seed: int
    flags: tuple

    @property
    def name(self) -> str:
        """The run's name, which is the same in every grid, so that a shared run is trained once."""
        parts = [self.dataset, self.row, self.setting, f"seed{self.seed}"]
        return "-".join(re.sub(r"[^\w.=+-]+", "_", part) for part in parts if part)

    def arguments(self, output_dir: Path) -> list:
        """Returns the arguments of the train command."""
        return [*self.flags, f"--seed={self.seed}", f"--output_dir={output_dir}"]

    def config(self, output_dir: Path) -> Config:
        """Returns the configuration that the train command will use.

        Raises:
            ValueError: If a flag is unknown or a value out of range; the message names the run.
        """
        values = flags.FlagValues()
        train.define_flags(values)
        try:
            rest = values(["train", *self.arguments(output_dir)])[1:]
            if rest:
                raise ValueError(f"unexpected argument {rest[0]!r}.")
            return Config(**config_flags.given(values))
        except (flags.Error, ValueError, OSError) as error:
            raise ValueError(f"{self.name}: {error}") from error


def selected(runs: list, table: str | None = None, setting: str | None = None) -> list:
    """Returns the runs of a table of the paper and of a setting.

    Args:
        runs: Of one grid, in order.
        table: As the rows have it; None selects all.
        setting: The values of the axes, such as "M=10", or "default"; None selects all.

    Raises:
        ValueError: If no run has the table, or the setting.
    """
    for name, value, known in (
        ("table", table, {run.table: run.table for run in runs}),
        ("setting", setting, {run.setting or DEFAULT_SETTING: run.setting for run in runs}),
    ):
        if value is not None and value not in known:
            raise ValueError(f"`{name}` must be one of {'; '.join(known)}, got {value}.")
        runs = [run for run in runs if value is None or getattr(run, name) == known[value]]
    return runs


def read_grid(path: Path, more_flags: tuple = (), data_dirs: dict | None = None) -> list:
    """Returns the runs of a grid file, all rows of the first seed before those of the second.

    The file is YAML. `data_sets` maps names to lists of flags; `rows` maps names to `flags`, the paper's
    `table` and its `method`; `seeds` is a list; `axes` maps a name to its values, each a label with a list of
    flags (an empty list is the default setting); `flags` apply to every run.

    Args:
        path: The file.
        more_flags: Further flags for every run.
        data_dirs: Name of a data set to its folder, for `--data_dir`.

    Raises:
        ValueError: If the file does not exist, is not YAML, or is malformed.
    """
    check_input_file("grid", path, "The grids are in experiments/grids.")
    try:
        grid = yaml.load(Path(path).read_text("utf-8"), _Loader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        # An error of YAML has several lines.
        reason = " ".join(str(error).split())
        raise ValueError(f"`grid` must be a YAML file, got {path}: {reason}.") from error
    _check_keys(path, "The grid", grid, _KEYS, {"data_sets", "rows", "seeds"})
    for name in ("data_sets", "rows"):
        _check_mapping(path, f"`{name}`", grid[name])
    for name, row in grid["rows"].items():
        _check_keys(path, f"Row {name}", row, _ROW_KEYS, _ROW_KEYS)
        _check_flags(path, f"Row {name}", row["flags"])
        if not isinstance(row["method"], str):
            raise ValueError(f"Row {name} must have a text as `method` in {path}, got {row['method']!r}.")
    for name, flag_list in grid["data_sets"].items():
        _check_flags(path, f"Data set {name}", flag_list)
    _check_flags(path, "The grid", grid.get("flags") or [])
    _check_flags(path, "The command line", list(more_flags))
    seeds = grid["seeds"]
    if not isinstance(seeds, list) or not seeds or not all(type(seed) is int for seed in seeds):
        raise ValueError(f"`seeds` must be a list of whole numbers in {path}, got {seeds!r}.")
    data_sets, data_dirs = grid["data_sets"], data_dirs or {}
    unknown = sorted(set(data_dirs) - set(data_sets))
    if unknown:
        raise ValueError(
            f"`data_dir` must be for one of {', '.join(data_sets)} in {path}, got {', '.join(unknown)}."
        )
    runs = []
    for seed, dataset, (row, parts) in itertools.product(grid["seeds"], data_sets, grid["rows"].items()):
        folder = [f"--data_dir={data_dirs[dataset]}"] if dataset in data_dirs else []
        for setting, axis_flags in _settings(path, grid.get("axes") or {}):
            every = (*data_sets[dataset], *folder, *parts["flags"], *(grid.get("flags") or ()), *more_flags)
            runs.append(
                Run(row, str(parts["table"]), parts["method"], dataset, setting, seed, (*every, *axis_flags))
            )
    _check_names(path, runs)
    return runs


def _settings(path: Path, axes: dict) -> list:
    """Returns (text of the setting, its flags) for each combination of the axes' values."""
    if axes:
        _check_mapping(path, "`axes`", axes)
    for name, values in axes.items():
        if not isinstance(values, dict) or not all(isinstance(value, list) for value in values.values()):
            raise ValueError(f"Axis {name} must map labels to lists of flags in {path}, got {values!r}.")
        for label, flag_list in values.items():
            _check_flags(path, f"{name}={label}", flag_list)
    combinations = []
    for chosen in itertools.product(*(values.items() for values in axes.values())):
        parts = [(f"{axis}={label}", flags) for axis, (label, flags) in zip(axes, chosen) if flags]
        combinations.append((", ".join(text for text, _ in parts), [flag for _, fs in parts for flag in fs]))
    return combinations


def _check_mapping(path: Path, what: str, part: object) -> None:
    if not isinstance(part, dict) or not part or not all(isinstance(name, str) for name in part):
        raise ValueError(f"{what} must map names (texts) to what they mean in {path}, got {part!r}.")


def _check_flags(path: Path, what: str, part: object) -> None:
    if not isinstance(part, list) or not all(isinstance(flag, str) for flag in part):
        raise ValueError(
            f"{what} must have a list of texts as `flags` in {path}, got {part!r}. In brackets, quote a flag "
            "with a comma."
        )
    for flag in part:
        if flag.lstrip("-").partition("=")[0] in _OWN_FLAGS:
            raise ValueError(
                f"{what} must leave seeds, folders and resuming to the grid in {path}, got {flag}."
            )


def _check_keys(path: Path, what: str, part: object, known: set, needed: set) -> None:
    if not isinstance(part, dict):
        raise ValueError(f"{what} must be a mapping in {path}, got {part!r}.")
    for words, names in (("must have", needed - set(part)), ("must not have", set(part) - known)):
        if names:
            raise ValueError(f"{what} {words} {', '.join(sorted(map(str, names)))} in {path}.")


def _check_names(path: Path, runs: list) -> None:
    names = [run.name for run in runs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"Every run must be in {path} once, got twice: {', '.join(twice)}.")
