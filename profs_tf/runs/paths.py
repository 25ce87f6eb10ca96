"""Absolute paths of a run's data, by which the run is evaluated and exported from other folders, too."""

import dataclasses
import os

from profs_tf.config import Config
from profs_tf.utils.files import expanded

# Data sets whose names have a path.
_WITH_PATH = ("folder", "csv")


def with_absolute_paths(config: Config) -> Config:
    """Returns the configuration with absolute paths of data set, `data_dir` and file of training classes."""
    kind, _, path = config.dataset.partition(":")
    classes = config.train_classes
    return dataclasses.replace(
        config,
        dataset=f"{kind}:{_absolute(path)}" if kind in _WITH_PATH and path else config.dataset,
        data_dir=_absolute(config.data_dir) if config.data_dir else config.data_dir,
        train_classes=_absolute(classes) if classes and expanded(classes).is_file() else classes,
    )


def _absolute(path: str) -> str:
    return os.path.abspath(expanded(path))
