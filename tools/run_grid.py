r"""Trains every run of a grid (rows x data sets x seeds x axes) and collects the metrics.

    python tools/run_grid.py --grid=experiments/grids/emoji_table.yaml
    python tools/run_grid.py --grid=experiments/grids/emoji_table.yaml --dry_run
    python tools/run_grid.py --grid=experiments/grids/paper.yaml --data_dir=CUB-200-2011=/data/CUB_200_2011
    python tools/run_grid.py --grid=experiments/grids/paper.yaml --table=1 --setting=default
    python tools/run_grid.py --grid=experiments/grids/emoji_steps.yaml --only='margin.*seed0'
    python tools/run_grid.py --grid=experiments/grids/emoji_table.yaml --flag=--validation_classes=0.2 \
        --runs_dir=runs/tuning --results=runs/tuning.csv

Each run is a separate process (`python -m profs_tf.train`) with its own folder under --runs_dir. On Ctrl-C
the current run saves its state, and the grid stops. After that, or after a kill, the same command continues:
it skips finished runs, resumes a run from its checkpoint, and restarts one without a checkpoint. A run that
two grids share is trained once. A failed run is recorded with the end of its log, and the others continue.
Missing data sets are skipped. Checkpoints, most of a run's bytes, are removed once it has finished.

Next to each run's folder (config.json, log.csv, metrics.json and so on) are its record NAME.json (commit,
machine, seconds, how each attempt ended) and its log NAME.log. --results is one CSV with a line per metric,
which starts with the columns of experiments/paper_results.csv; tools/report.py shows it.

Exit codes: 0 success, 1 some runs or the machine failed (a full disk), 2 usage error, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

from command_line import ROOT, check_output_file, explain
from grid_runs.grid_file import read_grid, selected
from grid_runs.locks import lock
from grid_runs.results import read_results
from grid_runs.run_files import RunFiles
from grid_runs.worker import TRAIN, Worker

from profs_tf.cli.exit_codes import FAILURE, INTERRUPTED
from profs_tf.runs.factory import load_data
from profs_tf.utils.files import check_folder_output, expanded


def parse_arguments(arguments: list | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--grid", required=True, type=expanded, help="the grid file")
    parser.add_argument(
        "--runs_dir",
        type=expanded,
        default=ROOT / "runs/grid",
        help="folder of the runs' folders (runs/grid)",
    )
    parser.add_argument(
        "--results", type=expanded, default=ROOT / "runs/results.csv", help="the CSV (runs/results.csv)"
    )
    parser.add_argument("--jobs", type=int, default=1, help="number of runs trained at the same time (1)")
    parser.add_argument(
        "--only", metavar="REGEX", default="", help="train only runs whose name contains a match"
    )
    parser.add_argument("--table", metavar="TABLE", help="train only the rows of a table of the paper")
    parser.add_argument(
        "--setting", metavar="SETTING", help="train only runs with these values of the axes, or: default"
    )
    parser.add_argument(
        "--data_dir", action="append", default=[], metavar="NAME=FOLDER", help="folder of a data set"
    )
    parser.add_argument(
        "--flag",
        action="append",
        default=[],
        metavar="FLAG",
        help="flag of the train command for all runs",
    )
    parser.add_argument(
        "--keep_checkpoints", action="store_true", help="keep the checkpoints of runs that have finished"
    )
    parser.add_argument("--dry_run", action="store_true", help="list what would run, and exit")
    parsed = parser.parse_args(arguments)
    if parsed.jobs < 1:
        parser.error(f"--jobs must be >= 1, got {parsed.jobs}.")
    wrong = [text for text in parsed.data_dir if "=" not in text]
    if wrong:
        parser.error(f"--data_dir must be NAME=FOLDER, got {wrong[0]}.")
    try:
        parsed.only = re.compile(parsed.only)
    except re.error as error:
        parser.error(f"--only must be a regular expression, got {parsed.only!r}: {error}.")
    return parsed


def main(arguments: list | None = None, command: tuple = TRAIN) -> int:
    """Trains the grid; returns the exit code.

    Args:
        arguments: Command line arguments; None reads those of the process.
        command: The train command to run.
    """
    parsed = parse_arguments(arguments)
    parsed.grid, parsed.runs_dir, parsed.results = (
        path.resolve() for path in (parsed.grid, parsed.runs_dir, parsed.results)
    )
    data_dirs = {
        name: str(Path(folder).expanduser().resolve())
        for name, _, folder in (text.partition("=") for text in parsed.data_dir)
    }
    # Flag files name each other relative to the repository.
    os.chdir(ROOT)
    try:
        check_folder_output("runs_dir", parsed.runs_dir)
        check_output_file("results", parsed.results)
        every = read_grid(parsed.grid, tuple(parsed.flag), data_dirs)
        every = selected(every, parsed.table, parsed.setting)
        runs = [run for run in every if parsed.only.search(run.name)]
        if every and not runs:
            raise ValueError(
                f"`only` must match one of {len(every)} runs, got {parsed.only.pattern}. "
                f"One is {every[0].name}."
            )
        all_files = [RunFiles(parsed.runs_dir, run) for run in with_data(runs, parsed.runs_dir)]
        if not all_files:
            raise ValueError(f"`grid` must have a run whose data is there, got none in {parsed.grid}.")
        # Conflicts with existing files are found before hours of training.
        if parsed.results.exists():
            read_results(parsed.results)
        if parsed.dry_run:
            list_runs(all_files)
            return 0
        return train_all(all_files, parsed, command)
    except Exception as error:
        return explain(error, __file__, parsed)


def with_data(runs: list, runs_dir: Path) -> list:
    """Returns the runs whose data set is found; prints the missing data sets.

    Raises:
        ValueError: If a run has a flag that is unknown or out of range.
    """
    missing = {}
    for run in runs:
        config = run.config(runs_dir)
        if run.dataset in missing:
            continue
        try:
            load_data(config)
            missing[run.dataset] = None
        except (FileNotFoundError, NotADirectoryError) as error:
            missing[run.dataset] = error
            print(f"{run.dataset} is skipped. {error}\n(Here: --data_dir={run.dataset}=FOLDER.)", flush=True)
    return [run for run in runs if missing[run.dataset] is None]


def list_runs(all_files: list) -> None:
    """Prints each run's state and command."""
    for files in all_files:
        flags = " ".join(files.run.arguments(files.folder.path))
        print(f"{files.state():<13} {files.run.name}\n    python -m profs_tf.train {flags}")
    print(f"{len(all_files)} runs.")


def train_all(all_files: list, parsed: argparse.Namespace, command: tuple) -> int:
    """Trains what is not finished; returns the exit code."""
    with (
        lock(parsed.runs_dir / ".lock") as runs_lock,
        lock(parsed.results.with_name(parsed.results.name + ".lock")) as results_lock,
    ):
        locks = (runs_lock.fileno(), results_lock.fileno())
        for files in all_files:
            files.state()
        worker = Worker(all_files, parsed.results, ROOT, parsed.jobs, command, locks, parsed.keep_checkpoints)
        worker.work()
    if worker.interrupted:
        print("Stopped. The same command continues.", flush=True)
        return INTERRUPTED
    if worker.failed:
        print(f"{len(worker.failed)} runs failed: {', '.join(worker.failed)}", flush=True)
        return FAILURE
    print(f"All runs are finished: {parsed.results}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
