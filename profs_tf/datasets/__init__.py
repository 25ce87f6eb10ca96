"""Data sets: each is read into two ``ImageList``, the training and the test split."""

from __future__ import annotations

import os
from typing import Optional, Union

from profs_tf.datasets.cars196 import CARS196
from profs_tf.datasets.class_split import TrainClasses, hold_out_classes, shared_classes, split_by_class
from profs_tf.datasets.csv import from_csv, list_csv
from profs_tf.datasets.cub200 import CUB200
from profs_tf.datasets.emoji import load_emoji
from profs_tf.datasets.folder import from_folder, list_folder
from profs_tf.datasets.image_list import ImageList
from profs_tf.datasets.official_split import DatasetNotFoundError
from profs_tf.datasets.sop import SOP

__all__ = [
    "DatasetNotFoundError",
    "ImageList",
    "from_csv",
    "from_folder",
    "hold_out_classes",
    "list_csv",
    "list_folder",
    "load",
    "names",
    "shared_classes",
    "split_by_class",
]

_OFFICIAL = {dataset.name: dataset for dataset in (CUB200, CARS196, SOP)}
_OWN_IMAGES = {"folder": from_folder, "csv": from_csv}


def names() -> tuple[str, ...]:
    """Returns the names that ``load`` accepts; PATH stands for a path."""
    return ("emoji", *_OFFICIAL, *(f"{kind}:PATH" for kind in _OWN_IMAGES))


def load(
    dataset: str,
    data_dir: Optional[Union[str, os.PathLike]] = None,
    train_classes: Optional[TrainClasses] = None,
    allow_partial_data: bool = False,
    download: bool = False,
) -> tuple[ImageList, ImageList]:
    """Returns (train, test) of a data set, two ``ImageList``.

    Args:
        dataset: "emoji", which comes with the package; "cub200", "cars196" or "sop", split by the zero-shot
            protocol; "folder:PATH" or "csv:PATH" for your own images.
        data_dir: Where cub200, cars196 or sop is. See ``official_split.OfficialDataset.load``.
        train_classes: Which classes of a folder or CSV file train, see ``split_by_class``. None means the
            first half.
        allow_partial_data: Whether an incomplete copy of cub200, cars196 or sop is accepted.
        download: Whether TensorFlow Datasets downloads cub200, cars196 or sop if it is not found.

    Raises:
        ValueError: If the name is unknown (the message lists the valid ones), or an option is given that does
            not apply to the data set.
        DatasetNotFoundError: If the data is not found; the message says where to get it.
    """
    kind, colon, path = dataset.partition(":")
    given = {
        "data_dir": data_dir is not None,
        "train_classes": train_classes is not None,
        "allow_partial_data": allow_partial_data,
        "download": download,
    }
    if dataset == "emoji":
        _refuse(dataset, given)
        return load_emoji()
    if dataset in _OFFICIAL:
        _refuse(dataset, {"train_classes": given["train_classes"]})
        return _OFFICIAL[dataset].load(data_dir, allow_partial_data, download)
    if colon and path and kind in _OWN_IMAGES:
        _refuse(dataset, {option: used for option, used in given.items() if option != "train_classes"})
        read = _OWN_IMAGES[kind]
        return read(path) if train_classes is None else read(path, train_classes)
    raise ValueError(f"`dataset` must be one of {', '.join(names())}, got {dataset!r}.")


def _refuse(dataset: str, options: dict[str, bool]) -> None:
    for option, given in options.items():
        if given:
            raise ValueError(f"`{option}` must be left out for {dataset}, to which it does not apply.")
