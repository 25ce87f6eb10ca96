"""Beginning where another run ended: the weights of its best epoch."""

from pathlib import Path

import tensorflow as tf

from profs_tf.config import Config
from profs_tf.run_folder import RunFolder

# What decides which weights an embedder has.
_SAME = ("backbone", "embedding_dim")


def find_initial_weights(config: Config) -> Path:
    """Returns where the weights of the configuration's `initial_run` are.

    Raises:
        FileNotFoundError: if the folder holds no run that was evaluated.
        ValueError: if that run's embedder is another one.
    """
    folder = RunFolder(config.initial_run or "")
    if not folder.config.exists() or not folder.best_weights.with_suffix(".index").exists():
        raise FileNotFoundError(
            f"`initial_run` must be the folder of a run with a best epoch, but {folder.path} has no "
            f"{folder.config.name} or no {folder.best_weights.relative_to(folder.path)}. Train it first."
        )
    other = folder.read_config()
    for name in _SAME:
        if getattr(other, name) != getattr(config, name):
            raise ValueError(
                f"`initial_run` must have this run's `{name}`, {getattr(config, name)}, but "
                f"{folder.path} has {getattr(other, name)}. Pass --{name}={getattr(other, name)}."
            )
    return folder.best_weights


def load_initial_weights(embedder: tf.keras.Model, config: Config) -> None:
    """Sets all weights of the embedder to those of `initial_run`.

    Raises:
        FileNotFoundError, ValueError: as `find_initial_weights`.
    """
    weights = find_initial_weights(config)
    embedder.load_weights(str(weights)).assert_existing_objects_matched()
