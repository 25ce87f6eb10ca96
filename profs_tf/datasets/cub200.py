"""Caltech-UCSD Birds 200-2011: 200 species, 11,788 photographs.

Wah et al., "The Caltech-UCSD Birds-200-2011 Dataset", 2011. The first 100 species train (5,864 images), the
other 100 test (5,924 images).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from profs_tf.datasets.official_split import ArchiveListing, OfficialDataset
from profs_tf.datasets.tfds_export import TfdsReader


def read_archive(root: Path, layout: tuple[str, ...]) -> ArchiveListing:
    """Reads images.txt ("image path") and image_class_labels.txt ("image class", counted from 1)."""
    paths = _table(root / layout[0])
    classes = _table(root / layout[1])
    if set(paths) != set(classes):
        raise ValueError(
            f"`{layout[1]}` must have a class for each image in `{layout[0]}` and no other, "
            f"got {len(classes):,} and {len(paths):,} lines in {root}."
        )
    class_ids = [int(classes[image]) - 1 for image in paths]
    folders = [path.split("/")[0] for path in paths.values()]
    return ArchiveListing(
        [str(root / layout[2] / path) for path in paths.values()],
        class_ids,
        dict(zip(class_ids, folders)),
    )


def _table(path: Path) -> dict[str, str]:
    lines = path.read_text("utf-8").splitlines()
    rows = [line.split(maxsplit=1) for line in lines if line.strip()]
    if any(len(row) < 2 for row in rows):
        raise ValueError(f"`{path}` must have two columns, got a line with one.")
    return dict(rows)


def _class_of(example: dict[str, Any], features: dict[str, Any]) -> tuple[int, str]:
    return int(example["label"]), example["image/filename"].decode("utf-8").split("/")[-2]


CUB200 = OfficialDataset(
    name="cub200",
    title="CUB-200-2011",
    num_train_classes=100,
    num_train_images=5_864,
    num_test_images=5_924,
    folders=("CUB_200_2011",),
    layouts=(("images.txt", "image_class_labels.txt", "images"),),
    read_archive=read_archive,
    tfds_reader=TfdsReader("caltech_birds2011", ("label", "image/filename"), _class_of),
    sources=(
        "https://data.caltech.edu/records/65de6-vp158 (CUB_200_2011.tgz, 1.1 GB)",
        "https://www.vision.caltech.edu/datasets/cub_200_2011/",
        "TensorFlow Datasets: `download=True`",
    ),
)
