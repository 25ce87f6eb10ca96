"""Options of a run: its data, its folder and its seed."""

from dataclasses import dataclass
from typing import Optional

from profs_tf.utils.option_fields import option


@dataclass(frozen=True)
class DataOptions:
    """The part of `Config` that says what is trained on."""

    dataset: str = option(
        "emoji", "Data set: emoji (comes with the package), cub200, cars196, sop, folder:PATH or csv:PATH."
    )
    data_dir: Optional[str] = option(None, "Folder that holds the data set as its archive unpacks.")
    train_classes: Optional[str] = option(
        None,
        "folder: and csv: only. Training classes: a fraction of the classes (0.5), or a text file with one "
        "name per line. Default: the first half.",
    )
    validation_classes: Optional[float] = option(
        None,
        "Fraction of the training classes, drawn by a fixed shuffle, that is held out and evaluated "
        "instead of the test classes: for tuning. Default: none; the test classes are evaluated.",
        above=0.0,
    )
    allow_partial_data: bool = option(False, "Whether to accept an incomplete copy of a data set.")
    download: bool = option(False, "Whether TensorFlow Datasets may download a data set that is not found.")
    output_dir: str = option("", "Folder that the run is written to; it must not hold another run.")
    seed: int = option(
        0, "Seed of everything random; two runs with the same seed are equal bit for bit.", minimum=0
    )
