"""Which classes an exported embedder was trained on: the split of the run that it lies in."""

import dataclasses
import os
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

from profs_tf import datasets
from profs_tf.config import Config
from profs_tf.datasets.image_list import ImageList
from profs_tf.runs.directory import RunFolder
from profs_tf.runs.factory import load_data

SPLITS = ("train", "test", "validation")
# What decides which image is in which part.
_OF_SPLIT = ("train_classes", "validation_classes", "allow_partial_data")


class RunSplit(NamedTuple):
    """A data set with the split that its images are evaluated by."""

    config: Config
    """Holds the data set and its split; the rest of it says nothing."""
    notes: tuple[str, ...]
    """Lines for the user: what was taken from the run, and what contradicts it."""


def run_config_of(embedder: Union[str, os.PathLike]) -> Optional[Config]:
    """Returns the configuration of the run that an exported embedder belongs to, or None.

    Args:
        embedder: folder of the SavedModel: `embedder` in a run's folder, or one that holds a config.json.

    Raises:
        ValueError: if the configuration is not one of this version.
    """
    folder = Path(embedder).expanduser().absolute()
    candidates = [folder / "config.json"]
    if RunFolder(str(folder.parent)).embedder == folder:
        candidates.append(folder.parent / "config.json")
    for path in candidates:
        if path.exists():
            try:
                return Config.from_json(path.read_text("utf-8"))
            except (ValueError, TypeError) as error:
                raise ValueError(
                    f"`embedder` lies with {path}, which must be a run's configuration: {error} Move the "
                    "embedder's folder elsewhere to evaluate it without."
                ) from error
    return None


def split_to_evaluate(run: Optional[Config], given: dict[str, Any]) -> RunSplit:
    """Returns the split that the flags ask for; what they leave open is that of the run.

    Args:
        run: the run's configuration; None where there is none.
        given: the flags that were set, by the names of `Config`.
    """
    if run is None:
        return RunSplit(Config(**given), ())
    if not _is_same(run.dataset, given.get("dataset", run.dataset)):
        note = (
            f"The run was trained on {run.dataset}{_listed(run)}: the split of another data set is its own."
        )
        return RunSplit(Config(**given), (note,))
    names = ("dataset", "data_dir", *_OF_SPLIT)
    config = Config(**{**{name: getattr(run, name) for name in names}, **given})
    notes = [f"By the run's configuration: {config.dataset}{_listed(config)}."]
    for name in _OF_SPLIT:
        ran, asked = getattr(run, name), getattr(config, name)
        if ran != asked:
            notes.append(
                f"--{name}={asked} contradicts the run's {ran}: classes it trained on may be called unseen."
            )
    return RunSplit(config, tuple(notes))


def load_split(config: Config, part: str) -> ImageList:
    """Returns one part of a data set: the test classes, those trained on, or those held out of training.

    Raises:
        ValueError: as `load_data`, or if "validation" is asked for without `validation_classes`.
    """
    share = config.validation_classes
    train, test = load_data(dataclasses.replace(config, validation_classes=None))
    if part == "test":
        return test
    if share is not None:
        train, validation = datasets.hold_out_classes(train, share)
        return train if part == "train" else validation
    if part == "validation":
        raise ValueError(
            "`split` validation needs the share of the training classes that was held out, got none. "
            "Pass --validation_classes=SHARE."
        )
    return train


def _is_same(one: str, other: str) -> bool:
    """Returns whether two names of data sets mean the same one, however their path is written."""
    (kind, _, path), (other_kind, _, other_path) = one.partition(":"), other.partition(":")
    return kind == other_kind and Path(path).expanduser().resolve() == Path(other_path).expanduser().resolve()


def _listed(config: Config) -> str:
    set_ones = {name: getattr(config, name) for name in _OF_SPLIT}
    return "".join(f" --{name}={value}" for name, value in set_ones.items() if value not in (None, False))
