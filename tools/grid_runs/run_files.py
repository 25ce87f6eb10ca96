"""The files of a grid's run: its folder, and next to it a record and a log of the train command."""

from __future__ import annotations

import csv
import dataclasses
import json
import shutil
from pathlib import Path

from grid_runs.grid_file import Run

from profs_tf.config import Config
from profs_tf.runs.directory import RunFolder
from profs_tf.runs.resume import as_in_run
from profs_tf.utils.files import write_atomically

FINISHED, RESUMED, RESTARTED, NEW = "finished", "resumes", "restarts", "new"
# The locations of data and caches do not change what a run computes.
_PLACES = ("output_dir", "data_dir", "cache", "cache_dir")
# Options that a new run fills in where they are left open -> the open value; config.json has the other.
_LEFT_OPEN = {"pretrained": None, "freeze_batch_norm": "auto", "head_init": None}
_LOG_TAIL_LINES = 20


class RunFiles:
    """The files of one run.

    Attributes:
        run: The `Run`.
        folder: Its `RunFolder`.
        record_path: JSON with the run, its command and each attempt: start, machine, commit, duration, and
            how it ended.
        log_path: The output of the train command in all attempts.
    """

    def __init__(self, runs_dir: Path, run: Run):
        """Names the files without touching them."""
        self.run = run
        self.folder = RunFolder(str(runs_dir / run.name))
        # Outside the folder, which must be empty for the train command.
        self.record_path = runs_dir / f"{run.name}.json"
        self.log_path = runs_dir / f"{run.name}.log"

    def state(self) -> str:
        """Returns the state of the run: one of this module's constants.

        Raises:
            ValueError: If the folder holds a run with other settings, or was not written by a grid.
        """
        path = self.folder.path
        if not path.exists() or not any(path.iterdir()):
            return NEW
        if not self.record_path.exists():
            raise ValueError(
                f"`runs_dir` must hold this grid's runs, got {path} without its record {self.record_path}. "
                "Choose another --runs_dir."
            )
        if self.folder.config.exists():
            self._check_settings()
            if self.folder.metrics.exists():
                return FINISHED
            if (self.folder.checkpoints / "checkpoint").exists():
                return RESUMED
        return RESTARTED

    def _check_settings(self) -> None:
        config = self.folder.read_config()
        saved, asked = dataclasses.asdict(config), dataclasses.asdict(self.run.config(self.folder.path))
        for name in ("pretrained", "dataset", "train_classes"):
            if asked[name] is not None:
                asked[name] = as_in_run(config, name, asked[name])
        for name in asked:
            if name in _LEFT_OPEN and asked[name] == _LEFT_OPEN[name]:
                continue
            # As JSON, which has no tuples.
            if name not in _PLACES and json.dumps(saved[name]) != json.dumps(asked[name]):
                raise ValueError(
                    f"`{name}` must be {saved[name]!r} as in the run that {self.folder.path} holds, got "
                    f"{asked[name]!r}. Choose another --runs_dir, or remove that run."
                )

    def clear(self) -> None:
        """Removes the folder of a run that stopped before its first checkpoint."""
        shutil.rmtree(self.folder.path)

    def remove_checkpoints(self) -> None:
        """Removes what a finished run no longer needs, most of its bytes."""
        shutil.rmtree(self.folder.checkpoints, ignore_errors=True)

    def attempts(self) -> list:
        """Returns the recorded attempts as dicts, in order."""
        return (
            json.loads(self.record_path.read_text("utf-8"))["attempts"] if self.record_path.exists() else []
        )

    def write_attempts(self, attempts: list, command: list) -> None:
        """Writes the record."""
        record = {"run": dataclasses.asdict(self.run), "command": command, "attempts": attempts}
        write_atomically(self.record_path, json.dumps(record, indent=2) + "\n")

    def log_tail(self) -> list:
        """Returns the last lines of the train command's output."""
        return self.log_path.read_text("utf-8", errors="replace").splitlines()[-_LOG_TAIL_LINES:]

    def epochs_done(self) -> int:
        """Returns the number of epochs in the run's log."""
        try:
            with open(self.folder.log, encoding="utf-8", newline="") as file:
                return max((int(row["epoch"]) for row in csv.DictReader(file)), default=0)
        except FileNotFoundError:
            return 0

    def config(self) -> Config:
        """Returns the run's configuration."""
        return self.run.config(self.folder.path)
