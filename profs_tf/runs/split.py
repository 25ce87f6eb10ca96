"""The data set and split that an exported embedder is used with: by default those of its run."""

import dataclasses
import os
from typing import Any, NamedTuple, Optional, Union

from profs_tf import datasets
from profs_tf.config import Config
from profs_tf.datasets.image_list import ImageList
from profs_tf.runs.directory import RunFolder
from profs_tf.runs.factory import hold_out_for_projections, load_data
from profs_tf.utils.files import expanded

SPLITS = ("train", "test", "validation")
# Options that decide which image is in which split.
_OF_CCP = ("method", "ccp_validation_classes")
_OF_SPLIT = ("train_classes", "validation_classes", "allow_partial_data")


class RunSplit(NamedTuple):
    """A data set and how it is split.

    Attributes:
        config: Only its options of the data set count.
        notes: Lines for the user: what was taken from the run, and what contradicts it.
    """

    config: Config
    notes: tuple[str, ...]


class SplitImages(NamedTuple):
    """The images of one split.

    Attributes:
        images: The images.
        num_shared_classes: Number of their classes that also train; 0 for the training split itself, and for
            others unless the data set's own split shares classes.
    """

    images: ImageList
    num_shared_classes: int


def run_config_of(embedder: Union[str, os.PathLike]) -> Optional[Config]:
    """Returns the configuration of the run that an exported embedder belongs to, or None.

    Args:
        embedder: Folder of the SavedModel: `embedder` in a run's folder, or one that holds a config.json.

    Raises:
        ValueError: If the configuration was not written by this version.
    """
    folder = expanded(embedder).absolute()
    candidates = [folder / "config.json"]
    if RunFolder(folder.parent, argument="embedder").embedder == folder:
        candidates.append(folder.parent / "config.json")
    for path in candidates:
        if path.exists():
            try:
                return Config.from_json(path.read_text("utf-8"))
            except (ValueError, TypeError) as error:
                raise ValueError(
                    f"`embedder` lies with {path}, which must be a run's configuration: {error} Move the "
                    "embedder's folder elsewhere to use it without a run."
                ) from error
    return None


def split_to_evaluate(run: Optional[Config], given: dict[str, Any]) -> RunSplit:
    """Returns the data set and split that the flags ask for; what they leave open is taken from the run.

    Args:
        run: The run's configuration, or None.
        given: The flags that were set, by the names of `Config`.
    """
    if run is None:
        return RunSplit(Config(**given), ())
    if not _is_same(run.dataset, given.get("dataset", run.dataset)):
        note = f"The run was trained on {run.dataset}{_listed(run)}; the other data set has its own split."
        return RunSplit(Config(**given), (note,))
    names = ("dataset", "data_dir", *_OF_SPLIT, *(_OF_CCP if run.method == "ccp" else ()))
    config = Config(**{**{name: getattr(run, name) for name in names}, **given})
    notes = [f"By the run's configuration: {config.dataset}{_listed(config)}."]
    for name in _OF_SPLIT:
        ran, asked = getattr(run, name), getattr(config, name)
        if ran != asked:
            notes.append(
                f"--{name}={asked} contradicts the run's {ran}: classes it trained on may be called unseen."
            )
    return RunSplit(config, tuple(notes))


def load_split(config: Config, split: str) -> SplitImages:
    """Returns one of `SPLITS` of a data set: test classes, training classes, or those held out of training.

    Raises:
        ValueError: As `load_data`, or if "validation" is asked for without `validation_classes`.
    """
    share = config.validation_classes
    train, test = load_data(dataclasses.replace(config, validation_classes=None))
    if share is not None:
        train, validation = datasets.hold_out_classes(train, share)
    if split == "test":
        return SplitImages(test, len(datasets.shared_classes(train, test)))
    if split == "train":
        return SplitImages(hold_out_for_projections(config, train)[0], 0)
    if share is None:
        raise ValueError(
            "`split` validation needs the fraction of the training classes that was held out, got none. "
            "Pass --validation_classes=FRACTION."
        )
    return SplitImages(validation, 0)


def _is_same(one: str, other: str) -> bool:
    """Returns whether two names mean the same data set, however their paths are written."""
    (kind, _, path), (other_kind, _, other_path) = one.partition(":"), other.partition(":")
    return kind == other_kind and expanded(path).resolve() == expanded(other_path).resolve()


def _listed(config: Config) -> str:
    values = {name: getattr(config, name) for name in _OF_SPLIT}
    return "".join(f" --{name}={value}" for name, value in values.items() if value not in (None, False))
