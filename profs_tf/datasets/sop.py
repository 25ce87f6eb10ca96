"""Stanford Online Products: 22,634 products, 120,053 photographs.

Song et al., "Deep metric learning via lifted structured feature embedding", 2016. The first
11,318 products train (59,551 images), the other 11,316 test (60,502), as the archive itself splits them.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from profs_tf.datasets.official_split import ArchiveListing, OfficialDataset
from profs_tf.datasets.tfds_export import TfdsReader

_COLUMNS = ("class_id", "path")


def read_archive(root: Path, layout: tuple[str, ...]) -> ArchiveListing:
    """Reads Ebay_train.txt and Ebay_test.txt, which number their classes from 1 in one sequence."""
    paths, class_ids, class_names = [], [], {}
    for part in layout[:2]:
        with open(root / part, encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file, delimiter=" ")
            if not set(_COLUMNS) <= set(reader.fieldnames or ()):
                raise ValueError(
                    f"`{root / part}` must have the columns {', '.join(_COLUMNS)}, got {reader.fieldnames}."
                )
            for row in reader:
                class_id = int(row["class_id"]) - 1
                paths.append(str(root / row["path"]))
                class_ids.append(class_id)
                class_names[class_id] = _class_name(row["path"].split("/")[0].replace("_final", ""), class_id)
    return ArchiveListing(paths, class_ids, class_names)


def _class_name(kind: str, class_id: int) -> str:
    return f"{kind}_{class_id + 1}"


def _class_of(example: dict[str, Any], features: dict[str, Any]) -> tuple[int, str]:
    class_id = int(example["class_id"])
    return class_id, _class_name(features["super_class_id"].int2str(int(example["super_class_id"])), class_id)


SOP = OfficialDataset(
    name="sop",
    title="Stanford Online Products",
    num_train_classes=11_318,
    num_train_images=59_551,
    num_test_images=60_502,
    folders=("Stanford_Online_Products",),
    layouts=(("Ebay_train.txt", "Ebay_test.txt"),),
    read_archive=read_archive,
    tfds_reader=TfdsReader("stanford_online_products", ("class_id", "super_class_id"), _class_of),
    sources=(
        "ftp://cs.stanford.edu/cs/cvgl/Stanford_Online_Products.zip (2.9 GB)",
        "https://cvgl.stanford.edu/projects/lifted_struct/",
        "TensorFlow Datasets: `download=True`",
    ),
)
