"""The folder of one training run: what lies where, and when a folder is refused."""

import json
import os
import shutil
from pathlib import Path
from typing import Any, Optional, Union

from profs_tf.config import Config
from profs_tf.runs.provenance import origin_of
from profs_tf.utils.files import write_atomically

# Beside the weights themselves: two moments and one anchor for each in two checkpoints, the best epoch's
# weights, the exported embedder.
_COPIES_OF_WEIGHTS = 12
_SMALL_FILES = 64 * 2**20


class RunFolder:
    """Paths of a run's files.

    Attributes:
        path: the folder; with config.json, log.csv, metrics.json, learning_curves.png, initial_weights.txt if
            it begins with another run's, and the folders checkpoints, tensorboard, best and embedder in it.
    """

    def __init__(self, path: Union[str, os.PathLike]) -> None:
        """Names the folder; touches nothing."""
        if not path:
            raise ValueError("`output_dir` must name a folder for the run. Pass --output_dir=FOLDER.")
        # Not Path's own, which fails for a user that is not known.
        self.path = Path(os.path.expanduser(path))
        self.config = self.path / "config.json"
        self.log = self.path / "log.csv"
        self.metrics = self.path / "metrics.json"
        self.curves = self.path / "learning_curves.png"
        self.checkpoints = self.path / "checkpoints"
        self.tensorboard = self.path / "tensorboard"
        self.best_weights = self.path / "best" / "weights"
        self.embedder = self.path / "embedder"
        self.origin = self.path / "initial_weights.txt"
        # The folders that `create` made, the innermost first; None before it.
        self._made: Optional[list[Path]] = None

    def create(self, config: Config) -> None:
        """Makes the folder and writes the configuration into it.

        Raises:
            FileExistsError: if the folder holds anything.
            PermissionError, NotADirectoryError: if it cannot be written.
        """
        if self.path.exists() and not self.path.is_dir():
            raise NotADirectoryError(f"`output_dir` must be a folder, got the file {self.path}.")
        if self.config.exists():
            raise FileExistsError(
                f"`output_dir` must not hold another run, got {self.path}. Go on with that run by --resume, "
                "or choose another folder."
            )
        if self.path.exists() and any(self.path.iterdir()):
            raise FileExistsError(
                f"`output_dir` must be empty or new, got {self.path}. Choose another folder."
            )
        missing = [path for path in (self.path, *self.path.absolute().parents) if not path.exists()]
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._made = missing
            self.write_config(config)
        except PermissionError as error:
            raise PermissionError(
                f"`output_dir` must be writable, got {self.path}: {error.strerror}."
            ) from error

    def write_origin(self, of_initial_run: str) -> None:
        """Writes where the first weights come from: other runs may be gone when it is asked.

        Args:
            of_initial_run: that of the run whose weights this one begins with.
        """
        write_atomically(self.origin, origin_of(self.read_config(), of_initial_run) + "\n")

    def read_origin(self) -> str:
        """Returns where the first weights come from, as it was written or by the configuration."""
        if self.origin.exists():
            return self.origin.read_text("utf-8").strip()
        return origin_of(self.read_config())

    def write_config(self, config: Config) -> None:
        """Writes config.json."""
        write_atomically(self.config, config.to_json())

    def discard_unless_trained(self) -> None:
        """Removes the run that this object created if it has no checkpoint yet: it would be in the way.

        Files that are not the run's stay, and folders that were there before.
        """
        if self._made is None or (self.checkpoints.exists() and any(self.checkpoints.iterdir())):
            return
        for file in (self.config, self.origin, self.log, self.metrics, self.curves):
            file.unlink(missing_ok=True)
        for folder in (self.checkpoints, self.tensorboard, self.best_weights.parent, self.embedder):
            shutil.rmtree(folder, ignore_errors=True)
        for folder in self._made:
            # Not what another process has put something into meanwhile.
            if folder.exists() and not any(folder.iterdir()):
                folder.rmdir()
        self._made = None

    def read_config(self) -> Config:
        """Returns the configuration of the run in the folder.

        Raises:
            FileNotFoundError: if there is none.
        """
        if not self.config.exists():
            raise FileNotFoundError(
                f"`output_dir` must hold a run to go on with, but there is no {self.config}. "
                "Leave out --resume to begin one."
            )
        return Config.from_json(self.config.read_text("utf-8"))

    def check_space(self, num_weights: int) -> None:
        """Refuses a disk that the run would fill.

        Args:
            num_weights: float32 weights of the embedder.

        Raises:
            ValueError: with the bytes needed and free.
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
