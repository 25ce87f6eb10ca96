"""The official zero-shot split of the paper's data sets: half of the classes train, the others test.

The protocol is that of Song et al., "Deep metric learning via lifted structured feature embedding", 2016 (the
paper's section 5.1). A local copy is found as the official archive unpacks or as TensorFlow Datasets prepares
it.
"""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Callable, Optional, Union

import numpy as np

from profs_tf.datasets import tfds_export
from profs_tf.datasets.class_split import MIN_CLASSES
from profs_tf.datasets.folder import files_exist
from profs_tf.datasets.image_list import ImageList
from profs_tf.utils.files import expanded

_LOG = logging.getLogger(__name__)


class DatasetNotFoundError(FileNotFoundError):
    """A data set was not found; the message says what was searched where, and where to get it."""


@dataclasses.dataclass(frozen=True)
class ArchiveListing:
    """The images that an archive lists, whether or not their files exist.

    Attributes:
        paths: N file paths.
        class_ids: N class numbers of the data set, counted from 0.
        class_names: Class number -> name, for the classes that occur.
    """

    paths: Sequence[str]
    class_ids: Sequence[int]
    class_names: Mapping[int, str]


@dataclasses.dataclass(frozen=True)
class OfficialDataset:
    """A published data set with an official split.

    Attributes:
        name: Its name in ``profs_tf.datasets.load``.
        title: Its name in messages.
        num_train_classes: Classes 0 to ``num_train_classes - 1`` train, the others test.
        num_train_images: Training images of a complete copy.
        num_test_images: Test images of a complete copy.
        folders: Names of the folder that the archive unpacks to.
        layouts: Alternative sets of files and folders that an unpacked archive holds, relative to it.
        read_archive: Function of an unpacked archive's folder and the layout found there, returning an
            ArchiveListing.
        tfds_reader: How the prepared TensorFlow dataset is read.
        sources: Where to get the data, one line each.
    """

    name: str
    title: str
    num_train_classes: int
    num_train_images: int
    num_test_images: int
    folders: tuple[str, ...]
    layouts: tuple[tuple[str, ...], ...]
    read_archive: Callable[[Path, tuple[str, ...]], ArchiveListing]
    tfds_reader: tfds_export.TfdsReader
    sources: tuple[str, ...]

    def load(
        self,
        data_dir: Optional[Union[str, os.PathLike]] = None,
        allow_partial_data: bool = False,
        download: bool = False,
    ) -> tuple[ImageList, ImageList]:
        """Returns (train, test), two lists of file paths, classes in the data set's order.

        The images of a class are sorted by path. Takes O(N log N) time for N images. A TensorFlow dataset's
        images are first written to files beside it, once.

        Args:
            data_dir: The folder of the unpacked archive or its parent, or a data folder of TensorFlow
                Datasets. None means the default of the latter (TFDS_DATA_DIR, else ~/tensorflow_datasets).
            allow_partial_data: Whether an incomplete copy is accepted, with a logged warning.
            download: Whether TensorFlow Datasets downloads and prepares the data set if it is not found.

        Raises:
            DatasetNotFoundError: If it is not found.
            ValueError: If the copy is incomplete (with `allow_partial_data`: too incomplete to be split) or
                inconsistent.
        """
        return self._split(self._find(data_dir, download), allow_partial_data)

    def _find(self, data_dir: Optional[Union[str, os.PathLike]], download: bool) -> ArchiveListing:
        searched = []
        for root in self._archive_roots(data_dir):
            for layout in self.layouts:
                missing = [part for part in layout if not (root / part).exists()]
                if not missing:
                    return self._read(root, layout)
                searched.append(f"{root}: no {', '.join(missing)}")
        tfds_dir = tfds_export.data_folder(data_dir)
        prepared = tfds_export.prepared_folder(self.tfds_reader.name, tfds_dir)
        if prepared is None and download:
            prepared = tfds_export.download(self.tfds_reader.name, tfds_dir)
        if prepared is None:
            searched.append(f"{tfds_dir}: no prepared TensorFlow dataset {self.tfds_reader.name}")
            raise DatasetNotFoundError(self._not_found_message(searched, data_dir is None))
        return ArchiveListing(*tfds_export.export_images(self.tfds_reader, prepared))

    def _read(self, root: Path, layout: tuple[str, ...]) -> ArchiveListing:
        try:
            return self.read_archive(root, layout)
        # The readers and SciPy pass on whatever a corrupt file makes them raise.
        except Exception as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            reason = str(error) if isinstance(error, ValueError) else repr(error)
            raise ValueError(
                f"{self.title} in {root} must be as its archive unpacks, but its annotations cannot be read: "
                f"{reason} Unpack the archive again."
            ) from error

    def _archive_roots(self, data_dir: Optional[Union[str, os.PathLike]]) -> list[Path]:
        if data_dir is None:
            return []
        root = expanded(data_dir)
        return [root, *(root / folder for folder in self.folders)]

    def _not_found_message(self, searched: list[str], is_default: bool) -> str:
        return "\n".join(
            [
                f"{self.title} was not found.",
                "Searched:",
                *(f"  {line}" for line in searched),
                "It is available from:",
                *(f"  {line}" for line in self.sources),
                f"{'Set `data_dir` to' if is_default else '`data_dir` must be'} the folder of the unpacked "
                f"archive ({self.folders[0]} with {', '.join(self.layouts[0])}) or its parent.",
            ]
        )

    def _split(self, listing: ArchiveListing, allow_partial_data: bool) -> tuple[ImageList, ImageList]:
        class_ids = np.asarray(listing.class_ids, np.int64)
        exists = files_exist(listing.paths)
        is_train = class_ids < self.num_train_classes
        chosen = {"train": np.flatnonzero(exists & is_train), "test": np.flatnonzero(exists & ~is_train)}
        if [len(part) for part in chosen.values()] != [self.num_train_images, self.num_test_images]:
            classes = [len(set(class_ids[part].tolist())) for part in chosen.values()]
            self._check_partial(self._partial_message(listing, exists, chosen), classes, allow_partial_data)
        train, test = (self._part(listing, class_ids, part, name) for name, part in chosen.items())
        return train, test

    def _partial_message(
        self, listing: ArchiveListing, exists: np.ndarray, chosen: Mapping[str, np.ndarray]
    ) -> str:
        message = (
            f"{self.title} must have {self.num_train_images:,} training and {self.num_test_images:,} test "
            f"images, got {len(chosen['train']):,} and {len(chosen['test']):,}"
        )
        missing = np.flatnonzero(~exists)
        if len(missing):
            message += f" ({len(missing):,} files are missing, such as {listing.paths[missing[0]]})"
        return message

    def _check_partial(self, message: str, classes: Sequence[int], allow_partial_data: bool) -> None:
        if min(classes) < MIN_CLASSES:
            raise ValueError(
                f"{message}. Complete the copy: a split by class needs images of at least {MIN_CLASSES} "
                f"training and {MIN_CLASSES} test classes, got {classes[0]} and {classes[1]}."
            )
        if not allow_partial_data:
            raise ValueError(f"{message}. Complete the copy, or use what exists: `allow_partial_data=True`.")
        _LOG.warning("%s. Continuing without the rest.", message)

    def _part(
        self, listing: ArchiveListing, class_ids: np.ndarray, chosen: np.ndarray, name: str
    ) -> ImageList:
        order = sorted(chosen.tolist(), key=lambda i: (listing.class_ids[i], listing.paths[i]))
        occurring, labels = np.unique(class_ids[order], return_inverse=True)
        names = [listing.class_names[class_id] for class_id in occurring]
        return ImageList([listing.paths[index] for index in order], labels, names, f"{self.name} {name}")
