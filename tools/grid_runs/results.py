"""The results file: a line per metric of each finished run; the paper's columns come first."""

from __future__ import annotations

import csv
import io
import json
import re
import statistics
from pathlib import Path

from grid_runs.run_files import RunFiles

from profs_tf.runs.log import mean_of_last_evaluations, read_log
from profs_tf.utils.files import write_atomically

PAPER_COLUMNS = ("table", "method", "dataset", "metric", "percent")
COLUMNS = (
    *PAPER_COLUMNS,
    "seed",
    "setting",
    "split",
    "variant",
    "loss",
    "loss_options",
    "backbone",
    "steps_per_projection",
    "proximal_weight",
    "epochs",
    "steps",
    "best_epoch",
    "step_milliseconds",
    "seconds",
    "cpu_seconds",
    "commit",
    "cores",
    "cpu",
    "tensorflow",
    "run",
)
# Ends the name of a metric that is the mean over the last three evaluations in place of the best epoch's.
LAST_EVALUATIONS = " last3"
_CLUSTERING = {"nmi": "NMI", "f1": "F1"}
# Patterns of the columns by which results are looked up.
_FORMS = {"seed": r"\d+", "metric": r"(NMI|F1|R@[1-9]\d*)( last3)?", "percent": r"\d+(\.\d+)?"}
_RULES = {
    "seed": "a whole number",
    "metric": "NMI, F1 or R@K, also of the last3 evaluations",
    "percent": "a number from 0 to 100",
}


def rows_of(files: RunFiles) -> list:
    """Returns the lines of a finished run, dicts of texts.

    `percent` is that of the best epoch, as in the paper; of a metric that ends in " last3" it is the mean
    over the last three evaluations, if there are as many. `split` is "test", or the share of the training
    classes that validates. `step_milliseconds` is the median wall time over the epochs. `seconds` and
    `cpu_seconds` are of the whole run with its evaluations, and empty if an attempt was killed together with
    its grid.
    """
    config, attempts = files.folder.read_config(), files.attempts()
    metrics = json.loads(files.folder.metrics.read_text("utf-8"))
    validation = config.validation_classes
    shared = {
        "table": files.run.table,
        "method": files.run.method,
        "dataset": files.run.dataset,
        "seed": config.seed,
        "setting": files.run.setting,
        "split": "test" if validation is None else f"validation {validation:g}",
        "variant": config.method,
        "loss": config.loss,
        "loss_options": json.dumps(config.loss_options, sort_keys=True),
        "backbone": config.backbone,
        "steps_per_projection": metrics["steps_per_projection"],
        "proximal_weight": config.effective_proximal_weight,
        "epochs": config.epochs,
        "steps": metrics["steps"],
        "best_epoch": metrics["best"]["epoch"],
        "step_milliseconds": _step_milliseconds(files, metrics["batch_size"]),
        "seconds": _sum(attempts, "seconds"),
        "cpu_seconds": _sum(attempts, "cpu_seconds"),
        "commit": _texts(attempts, "commit"),
        **{name: _texts(attempts, name) for name in ("cores", "cpu", "tensorflow")},
        "run": files.run.name,
    }
    return [
        {name: str({**shared, "metric": metric, "percent": f"{100 * value:.4f}"}[name]) for name in COLUMNS}
        for metric, value in [
            *_figures(metrics["best"], config.ks),
            *_means_of_last(read_log(files.folder.log), min(config.ks)),
        ]
    ]


def _figures(best: dict, ks: tuple) -> list:
    """Returns (the paper's name of the metric, fraction) in the order of the paper's columns."""
    clustering = [(name, best[key]) for key, name in _CLUSTERING.items() if key in best]
    return clustering + [(f"R@{k}", best[f"recall@{k}"]) for k in ks]


def _means_of_last(log: list, k: int) -> list:
    """Returns (name, fraction) of Recall@k and of the clustering metrics that are evaluated every time."""
    means = [
        (name, mean_of_last_evaluations(log, key))
        for key, name in {**_CLUSTERING, f"recall@{k}": f"R@{k}"}.items()
    ]
    return [(name + LAST_EVALUATIONS, mean) for name, mean in means if mean is not None]


def _step_milliseconds(files: RunFiles, batch_size: int) -> str:
    rates = [
        float(row["images_per_second"])
        for row in read_log(files.folder.log)
        if float(row.get("images_per_second", 0)) > 0
    ]
    return f"{1000 * batch_size / statistics.median(rates):.2f}" if rates else ""


def _sum(attempts: list, name: str) -> str:
    values = [attempt[name] for attempt in attempts]
    return "" if None in values else f"{sum(values):.1f}"


def _texts(attempts: list, name: str) -> str:
    return "; ".join(dict.fromkeys(str(attempt[name]) for attempt in attempts))


def read_results(path: Path) -> list:
    """Returns the lines of a results file, dicts of texts.

    Raises:
        ValueError: If it is not a CSV file with these columns, or a line is truncated or has an invalid
            `seed`, `metric` or `percent`; the message names the line.
    """
    try:
        # Spreadsheets write a byte order mark.
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            if tuple(reader.fieldnames or ()) != COLUMNS:
                header = ",".join(reader.fieldnames or ()) or "an empty first line"
                found = f"{path} with {header}" if reader.line_num else f"{path}, which is empty"
                raise ValueError(
                    f"`results` must have the columns {','.join(COLUMNS)}, got {found}. Choose another file."
                )
            lines = []
            for line in reader:
                _check_line(path, reader.line_num, line)
                lines.append(line)
            return lines
    except (UnicodeDecodeError, IsADirectoryError, csv.Error) as error:
        raise ValueError(
            f"`results` must be a CSV file, got {path}: {error}. Choose another file."
        ) from error


def _check_line(path: Path, number: int, line: dict) -> None:
    if None in line or None in line.values():
        raise ValueError(
            f"`results` must have {len(COLUMNS)} cells a line, got another number in line {number} of {path}."
            " Remove the line; the grid then adds its run again."
        )
    for name, form in _FORMS.items():
        if not re.fullmatch(form, line[name]) or (name == "percent" and float(line[name]) > 100):
            raise ValueError(
                f"`{name}` must be {_RULES[name]}, got {line[name]!r} in line {number} of {path}. "
                "Correct it, or remove the line; the grid then adds its run again."
            )


def _by_run(rows: list) -> dict:
    by_run = {}
    for row in rows:
        by_run.setdefault(row["run"], []).append(row)
    return by_run


def add_results(path: Path, rows: list) -> None:
    """Appends a run's lines, or replaces them if the run is in the file. Atomic.

    Raises:
        ValueError: If the existing file has other columns.
    """
    there = read_results(path) if path.exists() else []
    by_run = _by_run(there)
    by_run.update(_by_run(rows))
    wanted = [row for run_rows in by_run.values() for row in run_rows]
    if wanted == there:
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(wanted)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.getvalue())
