"""The flags of the data set and its split, the same for every command; those of the run are the default."""

import functools
import os
from typing import Any, Callable, Optional, Union

from absl import flags

from profs_tf.cli.config_flags import define_field
from profs_tf.cli.flag_types import define_flag
from profs_tf.config import Config
from profs_tf.datasets.image_list import ImageList
from profs_tf.runs.split import SPLITS, load_split, run_config_of, split_to_evaluate
from profs_tf.utils.forks import check_not_forked

# Fields of `Config`.
DATA_FLAGS = (
    "dataset",
    "data_dir",
    "train_classes",
    "validation_classes",
    "allow_partial_data",
    "download",
)


def define(values: flags.FlagValues) -> None:
    """Defines the flags of the data set."""
    for name in DATA_FLAGS:
        define_field(values, name)


def define_with_split(values: flags.FlagValues) -> None:
    """Defines the flags of the data set and --split, for a command that takes an embedder."""
    define(values)
    # Of an embedder in its run's folder the run decides, not the default of `Config`.
    values.set_default("dataset", None)
    values["dataset"].help += " Default: the data set and split of the embedder's run, else emoji."
    define_flag(
        values,
        "split",
        str,
        "test",
        "test: the test classes. train: the classes trained on. validation: those held out of training.",
        SPLITS,
    )


def given(values: flags.FlagValues) -> dict[str, Any]:
    """Returns the flags of the data set that were set, as arguments of `Config`."""
    return {name: values[name].value for name in DATA_FLAGS if values[name].present}


def load_chosen_split(
    values: flags.FlagValues,
    embedder: Union[str, os.PathLike, None],
    report: Callable[[str], Optional[object]] = functools.partial(print, flush=True),
) -> tuple[ImageList, Config]:
    """Returns the images that the flags of `define_with_split` choose, and the data set as a `Config`.

    What the flags leave open is taken from the run whose folder the embedder lies in.

    Args:
        values: The parsed flags.
        embedder: Folder of the SavedModel, or None.
        report: Receives the notes to the user: what was taken from the run, and what contradicts it.

    Raises:
        ValueError: If the data set or one of its options is wrong, or the run's configuration is unreadable.
        FileNotFoundError: If the data set is not found.
    """
    check_not_forked()
    run = None if embedder is None else run_config_of(embedder)
    config, notes = split_to_evaluate(run, given(values))
    for note in notes:
        report(note)
    images, num_shared = load_split(config, values.split)
    if num_shared:
        report(f"{num_shared:,} of the {images.num_classes:,} {values.split} classes also train: not unseen.")
    return images, config
