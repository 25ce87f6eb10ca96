"""The zero-shot protocol of the paper's data sets: the first half of the classes trains, the rest tests.

Song et al., "Deep metric learning via lifted structured feature embedding", 2016; the paper's section 5.1. A
local copy is looked for as the official archive unpacks, then as TensorFlow Datasets prepares it.
"""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Callable, Optional, Union

import numpy as np

from profs_tf.datasets import tfds_files
from profs_tf.datasets.image_list import ImageList

_LOG = logging.getLogger(__name__)


class DatasetNotFoundError(FileNotFoundError):
    """A data set is not where it was looked for; the message says what, where, and where to get it."""


@dataclasses.dataclass(frozen=True)
class Examples:
    """The images that an archive lists, whether or not their files are there.

    Attributes:
        paths: N file paths.
        class_ids: N class numbers of the data set, counted from 0.
        class_names: class number -> name, for the classes that occur.
    """

    paths: Sequence[str]
    class_ids: Sequence[int]
    class_names: Mapping[int, str]


@dataclasses.dataclass(frozen=True)
class ZeroShotDataset:
    """What is fixed of one data set.

    Attributes:
        name, title: its name in ``profs_tf.datasets.load``, and in messages.
        num_train_classes: classes 0 up to here train, the others test.
        num_train_images, num_test_images: what a complete copy holds.
        folders: names of the folder that the archive unpacks to.
        layouts: alternatives of the files and folders that an unpacked archive holds, relative to it.
        read_archive: function of an unpacked archive's folder and the layout found there, returning Examples.
        tfds_reader: how the prepared TensorFlow dataset is read.
        sources: where the data can be had, one line each.
    """

    name: str
    title: str
    num_train_classes: int
    num_train_images: int
    num_test_images: int
    folders: tuple[str, ...]
    layouts: tuple[tuple[str, ...], ...]
    read_archive: Callable[[Path, tuple[str, ...]], Examples]
    tfds_reader: tfds_files.TfdsReader
    sources: tuple[str, ...]

    def load(
        self,
        data_dir: Optional[Union[str, os.PathLike]] = None,
        allow_partial_data: bool = False,
        download: bool = False,
    ) -> tuple[ImageList, ImageList]:
        """Returns (train, test), two ImageList of file paths, classes in the data set's order.

        Within a class the images are in the order of their paths. Takes O(N log N) time for N images; the
        first time that a TensorFlow dataset is read, its encoded pictures are written out beside it once.

        Args:
            data_dir: the unpacked archive or the folder that holds it, or a data folder of TensorFlow
                Datasets. None looks for the latter at its usual place (TFDS_DATA_DIR, else
                ~/tensorflow_datasets).
            allow_partial_data: whether an incomplete copy is taken, with a logged count, in place of an
                error.
            download: whether TensorFlow Datasets downloads and prepares the data set if it is not found.

        Raises:
            DatasetNotFoundError: if it is not found.
            ValueError: if the copy is incomplete or inconsistent.
        """
        return self._split(self._find(data_dir, download), allow_partial_data)

    def _find(self, data_dir: Optional[Union[str, os.PathLike]], download: bool) -> Examples:
        looked_for = []
        for root in self._archive_roots(data_dir):
            for layout in self.layouts:
                missing = [part for part in layout if not (root / part).exists()]
                if not missing:
                    return self.read_archive(root, layout)
                looked_for.append(f"{root}: no {', '.join(missing)}")
        tfds_dir = tfds_files.data_folder(data_dir)
        prepared = tfds_files.prepared_folder(self.tfds_reader.name, tfds_dir)
        if prepared is None and download:
            prepared = tfds_files.download(self.tfds_reader.name, tfds_dir)
        if prepared is None:
            looked_for.append(f"{tfds_dir}: no prepared TensorFlow dataset {self.tfds_reader.name}")
            raise DatasetNotFoundError(self._not_found_message(looked_for))
        return Examples(*tfds_files.write_images(self.tfds_reader, prepared))

    def _archive_roots(self, data_dir: Optional[Union[str, os.PathLike]]) -> list[Path]:
        if data_dir is None:
            return []
        root = Path(data_dir).expanduser()
        return [root, *(root / folder for folder in self.folders)]

    def _not_found_message(self, looked_for: list[str]) -> str:
        return "\n".join(
            [
                f"{self.title} was not found.",
                "Looked for it at:",
                *(f"  {line}" for line in looked_for),
                "It can be had from:",
                *(f"  {line}" for line in self.sources),
                f"Pass the folder that holds the unpacked archive ({self.folders[0]} with "
                f"{', '.join(self.layouts[0])}): --data_dir=FOLDER, in Python data_dir=...",
            ]
        )

    def _split(self, examples: Examples, allow_partial_data: bool) -> tuple[ImageList, ImageList]:
        class_ids = np.asarray(examples.class_ids, np.int64)
        there = files_exist(examples.paths)
        trains = class_ids < self.num_train_classes
        counts = (int(np.sum(there & trains)), int(np.sum(there & ~trains)))
        if counts != (self.num_train_images, self.num_test_images):
            self._report_partial(examples, there, counts, allow_partial_data)
        return (
            self._part(examples, class_ids, np.flatnonzero(there & trains), "train"),
            self._part(examples, class_ids, np.flatnonzero(there & ~trains), "test"),
        )

    def _report_partial(
        self, examples: Examples, there: np.ndarray, counts: tuple[int, int], allow_partial_data: bool
    ) -> None:
        message = (
            f"{self.title} must have {self.num_train_images:,} training and {self.num_test_images:,} test "
            f"images, got {counts[0]:,} and {counts[1]:,}"
        )
        absent = np.flatnonzero(~there)
        if len(absent):
            message += f" ({len(absent):,} files are missing, such as {examples.paths[absent[0]]})"
        if not allow_partial_data or 0 in counts:
            raise ValueError(
                f"{message}. Complete the copy, or pass allow_partial_data=True for what is there."
            )
        _LOG.warning("%s. Going on with these, as `allow_partial_data` is set.", message)

    def _part(self, examples: Examples, class_ids: np.ndarray, chosen: np.ndarray, part: str) -> ImageList:
        order = sorted(chosen.tolist(), key=lambda i: (examples.class_ids[i], examples.paths[i]))
        occurring, labels = np.unique(class_ids[order], return_inverse=True)
        names = [examples.class_names[class_id] for class_id in occurring]
        return ImageList([examples.paths[index] for index in order], labels, names, f"{self.name} {part}")


def files_exist(paths: Sequence[str]) -> np.ndarray:
    """Returns which of the files exist, bool ``[N]``. Lists each folder once: quicker than asking N times."""
    listed = {}
    for folder in {os.path.dirname(path) for path in paths}:
        listed[folder] = set(os.listdir(folder)) if os.path.isdir(folder) else set()
    return np.array([os.path.basename(path) in listed[os.path.dirname(path)] for path in paths], bool)
