"""Data sets: each is read into two ``ImageList``, split by class into one that trains and one that tests."""

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
from profs_tf.datasets.sop import SOP
from profs_tf.datasets.zero_shot import DatasetNotFoundError

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

_ZERO_SHOT = {dataset.name: dataset for dataset in (CUB200, CARS196, SOP)}
_OWN_PICTURES = {"folder": from_folder, "csv": from_csv}


def names() -> tuple[str, ...]:
    """Returns the names that ``load`` takes; those in capitals stand for a path."""
    return ("emoji", *_ZERO_SHOT, *(f"{kind}:PATH" for kind in _OWN_PICTURES))


def load(
    dataset: str,
    data_dir: Optional[Union[str, os.PathLike]] = None,
    train_classes: Optional[TrainClasses] = None,
    allow_partial_data: bool = False,
    download: bool = False,
) -> tuple[ImageList, ImageList]:
    """Returns (train, test) of a data set, two ``ImageList``.

    An option that the data set has no use for is refused.

    Args:
        dataset: "emoji", which comes with the package; "cub200", "cars196" or "sop", by the zero-shot
            protocol; "folder:PATH" or "csv:PATH" for pictures of your own.
        data_dir: for cub200, cars196 and sop: where the data is. See ``zero_shot.ZeroShotDataset.load``.
        train_classes: for folder and csv: which classes train, see ``split_by_class``. None: the first half.
        allow_partial_data: for cub200, cars196 and sop: whether an incomplete copy is taken.
        download: for cub200, cars196 and sop: whether TensorFlow Datasets downloads what is not found.

    Raises:
        ValueError: if there is no such data set; the message lists the valid ones.
        DatasetNotFoundError: if the data is not there; the message says where to get it.
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
    if dataset in _ZERO_SHOT:
        _refuse(dataset, {"train_classes": given["train_classes"]})
        return _ZERO_SHOT[dataset].load(data_dir, allow_partial_data, download)
    if colon and path and kind in _OWN_PICTURES:
        _refuse(dataset, {option: used for option, used in given.items() if option != "train_classes"})
        read = _OWN_PICTURES[kind]
        return read(path) if train_classes is None else read(path, train_classes)
    raise ValueError(f"`dataset` must be one of {', '.join(names())}, got {dataset!r}.")


def _refuse(dataset: str, options: dict[str, bool]) -> None:
    for option, given in options.items():
        if given:
            raise ValueError(f"`{option}` must be left out for {dataset}, which has no use for it.")
