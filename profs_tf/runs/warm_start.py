"""Starts a run from another run's weights: those of its best epoch."""

from pathlib import Path
from typing import Optional

import tensorflow as tf

from profs_tf.backbones.weights.assign import check_finite
from profs_tf.config import Config
from profs_tf.runs.directory import RunFolder
from profs_tf.utils.errors import first_line

# Options that determine the shapes of an embedder's weights.
_SAME = ("backbone", "head", "embedding_dim")


def find_initial_run(config: Config) -> Optional[RunFolder]:
    """Returns the folder of the configuration's `initial_run`, or None if it has none.

    Raises:
        FileNotFoundError: If the folder holds no run that was evaluated.
        ValueError: If its configuration cannot be read, or that run's embedder differs from this run's.
    """
    if config.initial_run is None:
        return None
    folder = RunFolder(config.initial_run, argument="initial_run")
    if not folder.config.exists() or not folder.best_weights.with_suffix(".index").exists():
        raise FileNotFoundError(
            f"`initial_run` must be the folder of a run with a best epoch, but {folder.path} has no "
            f"{folder.config.name} or no {folder.best_weights.relative_to(folder.path)}. Train it first."
        )
    try:
        other = folder.read_config()
    except ValueError as error:
        raise ValueError(
            f"`initial_run` must be a run that this version can read, got {folder.config}: {error}"
        ) from error
    for name in _SAME:
        if getattr(other, name) != getattr(config, name):
            raise ValueError(
                f"`initial_run` must have this run's `{name}`, {getattr(config, name)}, but "
                f"{folder.path} has {getattr(other, name)}. Pass --{name}={getattr(other, name)}."
            )
    return folder


def load_initial_weights(embedder: tf.keras.Model, weights: Path) -> None:
    """Sets all weights of the embedder to those of the best epoch of another run.

    Raises:
        ValueError: If the files are damaged or not of this embedder, or a weight is not finite.
    """
    try:
        embedder.load_weights(str(weights)).assert_existing_objects_matched()
    except (tf.errors.OpError, IndexError, AssertionError, ValueError) as error:
        raise ValueError(
            f"`initial_run` must hold complete weights of this embedder, got {weights}: {first_line(error)}. "
            "Copy or train that run again."
        ) from error
    check_finite(embedder, "initial_run", str(weights))
