"""The folder of one training run: what lies where, and which folders are rejected."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any, Optional, Union

from profs_tf.config import Config
from profs_tf.runs.provenance import origin_of
from profs_tf.utils.files import check_folder_output, check_no_pattern, expanded, write_atomically

# Per weight: itself, two moments and an anchor in two checkpoints, the best epoch's, the exported embedder's.
_COPIES_OF_WEIGHTS = 12
_SMALL_FILES = 64 * 2**20


class RunFolder:
    """Paths of a run's files.

    Attributes:
        path: The folder; it holds config.json, log.csv, metrics.json, learning_curves.png,
            initial_weights.txt if it starts from another run's weights, and the folders checkpoints,
            tensorboard, best and embedder.
        shared: The folder of the whole run; another one only for a worker that is not the chief.
    """

    def __init__(
        self,
        path: Union[str, os.PathLike],
        shared: Optional[RunFolder] = None,
        argument: str = "output_dir",
    ) -> None:
        """Names the folder; touches nothing.

        Args:
            path: The folder.
            shared: See the attribute; None for the chief.
            argument: What an error calls the path.

        Raises:
            ValueError: If the path is empty, or one at which TensorFlow finds no checkpoint.
        """
        if not path:
            raise ValueError("`output_dir` must name a folder for the run. Pass --output_dir=FOLDER.")
        check_no_pattern(argument, path)
        self.path = expanded(path)
        self.shared = self if shared is None else shared
        self.config = self.path / "config.json"
        self.log = self.path / "log.csv"
        self.metrics = self.path / "metrics.json"
        self.curves = self.path / "learning_curves.png"
        self.checkpoints = self.path / "checkpoints"
        self.tensorboard = self.path / "tensorboard"
        self.best_weights = self.path / "best" / "weights"
        self.embedder = self.path / "embedder"
        self.origin = self.path / "initial_weights.txt"
        # The folders that `create` made, innermost first; None before it.
        self._made: Optional[list[Path]] = None

    def create(self, config: Config) -> None:
        """Creates the folder and writes the configuration into it.

        Raises:
            FileExistsError: If the folder holds anything.
            PermissionError, NotADirectoryError: If it cannot be written.
        """
        check_folder_output("output_dir", self.path)
        if self.config.exists():
            raise FileExistsError(
                f"`output_dir` must not hold another run, got {self.path}. Resume that run by --resume, "
                "or choose another folder."
            )
        if self.path.exists() and any(self.path.iterdir()):
            raise FileExistsError(
                f"`output_dir` must be empty or new, got {self.path}. Choose another folder."
            )
        missing = [path for path in (self.path, *self.path.absolute().parents) if not path.exists()]
        self.path.mkdir(parents=True, exist_ok=True)
        self._made = missing
        self.write_config(config)

    def write_origin(self, of_initial_run: str) -> None:
        """Writes where the initial weights come from: the other run may be gone by the time it is asked.

        Args:
            of_initial_run: The origin of the initial run's own weights.
        """
        write_atomically(self.origin, origin_of(self.read_config(), of_initial_run) + "\n")

    def read_origin(self) -> str:
        """Returns where the initial weights come from, as written, or else by the configuration."""
        if self.origin.exists():
            return self.origin.read_text("utf-8").strip()
        return origin_of(self.read_config())

    def write_config(self, config: Config) -> None:
        """Writes config.json."""
        write_atomically(self.config, config.to_json())

    def discard_unless_trained(self) -> None:
        """Removes the run that this object created unless it has a checkpoint; the command can be repeated.

        Files of others and folders that existed before stay.
        """
        if self._made is None or (self.checkpoints.exists() and any(self.checkpoints.iterdir())):
            return
        for file in (self.config, self.origin, self.log, self.metrics, self.curves):
            file.unlink(missing_ok=True)
        for folder in (self.checkpoints, self.tensorboard, self.best_weights.parent, self.embedder):
            shutil.rmtree(folder, ignore_errors=True)
        for folder in self._made:
            # Another process may have put something there meanwhile.
            if folder.exists() and not any(folder.iterdir()):
                folder.rmdir()
        self._made = None

    def read_config(self) -> Config:
        """Returns the configuration of the run in the folder.

        Raises:
            FileNotFoundError: If there is none.
        """
        if not self.config.exists():
            raise FileNotFoundError(
                f"`output_dir` must hold a run to resume, but there is no {self.config}. "
                "Leave out --resume to start one."
            )
        return Config.from_json(self.config.read_text("utf-8"))

    def check_space(self, num_weights: int) -> None:
        """Rejects a disk that the run would fill.

        Args:
            num_weights: Number of float32 weights of the embedder.

        Raises:
            ValueError: If less is free than the run needs.
        """
        needed = 4 * num_weights * _COPIES_OF_WEIGHTS + _SMALL_FILES
        existing = next(path for path in (self.path, *self.path.absolute().parents) if path.exists())
        free = shutil.disk_usage(existing).free
        if free < needed:
            raise ValueError(
                f"`output_dir` needs about {needed / 2**20:.0f} MB free for checkpoints and the exported "
                f"embedder, {self.path} has {free / 2**20:.0f} MB. Free some, or choose another disk."
            )

    def write_metrics(self, metrics: dict[str, Any]) -> None:
        """Writes metrics.json."""
        write_atomically(self.metrics, json.dumps(metrics, indent=2) + "\n")
