"""The input of the report: our results, the paper's, the rows of all grids, logs and failed runs."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import yaml
from grid_runs.results import LAST_EVALUATIONS, PAPER_COLUMNS, read_results

from profs_tf.runs.log import read_log

VARIANTS = ("baseline", "profs", "profs_hncm")
# Further variants of a loss, each with some parts of PROFS.
PARTIAL_VARIANTS = ("selection", "representatives", "reuse", "pull")
_SIGNAL_EXIT = 130


class ReportData:
    """All results, looked up by row, data set and metric.

    Attributes:
        lines: Lines of the results file as dicts, with `label` added: data set and validation part, if any.
        labels: The data sets that runs were evaluated on.
        paper: (table, method, data set, metric) to percent.
        families: A loss's name to {variant: (table, method)}, as the grid files have them.
        failures: (name, last attempt) of runs that failed and have not finished since.
    """

    def __init__(self, results: Path, runs_dir: Path, paper: Path, grids: Path):
        """Reads all files; a missing results file or folder of runs counts as empty.

        Args:
            results: The CSV of `run_grid.py`.
            runs_dir: The folder of the runs.
            paper: The CSV of the paper's figures.
            grids: The folder of the grid files, which define the rows.

        Raises:
            ValueError: If a file is malformed, or two runs give the same metric of a row.
        """
        self.lines = read_results(results) if results.exists() else []
        for line in self.lines:
            validation = "" if line["split"] == "test" else f" ({line['split']})"
            line["label"] = line["dataset"] + validation
        _check_once(results, self.lines)
        self.labels = list(dict.fromkeys(line["label"] for line in self.lines))
        self.paper = _read_paper(paper)
        self.families = _read_families(grids, list(dict.fromkeys(key[:2] for key in self.paper)))
        self.failures = _read_failures(runs_dir, {line["run"] for line in self.lines})
        self._runs_dir = runs_dir

    def paper_data_sets(self) -> list:
        """Returns the data sets of the paper's tables."""
        return list(dict.fromkeys(key[2] for key in self.paper))

    def rows(self, label: str) -> list:
        """Returns the (table, method) to show for a data set: the paper's rows, if any, and those run."""
        of_paper = [key[:2] for key in self.paper if key[2] == label]
        trained = [
            row for family in self.families.values() for variant, row in family.items() if variant in VARIANTS
        ]
        of_runs = [(line["table"], line["method"]) for line in self.lines if line["label"] == label]
        return list(dict.fromkeys([*(of_paper or trained), *of_runs]))

    def metrics(self, label: str) -> list:
        """Returns the names of a data set's metrics: clustering, Recall@K, then those that end in last3."""
        names = [key[3] for key in self.paper if key[2] == label]
        names += [line["metric"] for line in self.lines if line["label"] == label]
        last = [name for name in dict.fromkeys(names) if name.endswith(LAST_EVALUATIONS)]
        clustering = [name for name in ("NMI", "F1") if name in names]
        recalls = {name for name in names if name.startswith("R@") and name not in last}
        return clustering + sorted(recalls, key=lambda name: int(name[2:])) + last

    def by_seed(self, row: tuple, label: str, metric: str, setting: str = "") -> dict:
        """Returns {seed: percent} of a row's runs with a setting of the axes; "" is the default setting."""
        return {
            int(line["seed"]): float(line["percent"])
            for line in self.matching(row, label, setting)
            if line["metric"] == metric
        }

    def matching(self, row: tuple, label: str, setting: str = "") -> list:
        """Returns the lines of a row on a data set with a setting."""
        return [
            line
            for line in self.lines
            if (line["table"], line["method"], line["label"], line["setting"]) == (*row, label, setting)
        ]

    def log(self, run: str) -> list:
        """Returns the rows of a run's log, [] if its folder is missing."""
        path = self._runs_dir / run / "log.csv"
        return read_log(path) if path.exists() else []


def _check_once(path: Path, lines: list) -> None:
    """Raises ValueError if two runs give the same metric of a row: one of them would be hidden."""
    runs = {}
    for line in lines:
        key = tuple(line[name] for name in ("table", "method", "label", "setting", "seed", "metric"))
        other = runs.setdefault(key, line)
        if other is not line and other["percent"] != line["percent"]:
            raise ValueError(
                f"`results` must have each figure once, got {line['method']} on {line['label']}, seed "
                f"{line['seed']}, {line['metric']} from {other['run']} ({other['percent']}) and from "
                f"{line['run']} ({line['percent']}) in {path}. Give the rows of the grid file other methods "
                "or an axis, or keep their figures in files of their own."
            )


def _read_paper(path: Path) -> dict:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            figures = {
                (row["table"], row["method"], row["dataset"], row["metric"]): float(row["percent"])
                for row in csv.DictReader(file)
            }
        if not figures:
            raise ValueError("it has no line")
        return figures
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise ValueError(
            f"`paper` must be a CSV file with the columns {','.join(PAPER_COLUMNS)}, got {path}: {error}. "
            "Leave it out for experiments/paper_results.csv."
        ) from error


def _read_families(folder: Path, order: list) -> dict:
    """Returns {family: {variant: (table, method)}} of the rows in all grid files, named FAMILY_VARIANT.

    Those whose rows are in `order` come first, as they come there. Where grid files name a variant's row
    differently, the one that comes first counts.
    """
    families, names = {}, (*VARIANTS, *PARTIAL_VARIANTS)
    positions = {row: position for position, row in enumerate(order)}

    def position_of(row: tuple) -> int:
        return positions.get(row, len(order))

    for path in sorted(folder.glob("*.yaml")):
        for row_name, row in _read_rows(path).items():
            for variant in sorted(names, key=len, reverse=True):
                if row_name.endswith(f"_{variant}"):
                    family = families.setdefault(row_name[: -len(variant) - 1], {})
                    family[variant] = min(family.get(variant, row), row, key=position_of)
                    break
    first = {family: min(map(position_of, rows.values())) for family, rows in families.items()}
    return {
        family: {variant: families[family][variant] for variant in names if variant in families[family]}
        for family in sorted(families, key=first.get)
    }


def _read_rows(path: Path) -> dict:
    """Returns {name: (table, method)} of the rows of a grid file."""
    try:
        rows = yaml.safe_load(path.read_text("utf-8"))["rows"]
        return {name: (str(row["table"]), row["method"]) for name, row in rows.items()}
    except (AttributeError, KeyError, TypeError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"`grids` must hold grid files alone, got {path}: {reason}. run_grid.py --dry_run tells more."
        ) from error


def _read_failures(runs_dir: Path, finished: set) -> list:
    failures = []
    for path in sorted(runs_dir.glob("*.json")):
        try:
            attempts = json.loads(path.read_text("utf-8"))["attempts"]
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"`runs_dir` must hold the records of run_grid.py alone, got {path}, which is none. Choose "
                "the --runs_dir of run_grid.py."
            ) from error
        last = attempts[-1] if attempts else {}
        if path.stem not in finished and last.get("exit_code") not in (None, 0, _SIGNAL_EXIT):
            failures.append((path.stem, last))
    return failures
