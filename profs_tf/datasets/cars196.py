"""Cars196: 196 car models, 16,185 photographs.

Krause et al., "3D object representations for fine-grained categorization", 2013. The first 98 models train
(8,054 images), the other 98 test (8,131).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from profs_tf.datasets.official_split import ArchiveListing, OfficialDataset
from profs_tf.datasets.tfds_export import TfdsReader

_SINGLE_ARCHIVE = ("cars_annos.mat", "car_ims")
_TEST_LABELS = "cars_test_annos_withlabels.mat"
_DEVKIT = ("devkit/cars_meta.mat", "devkit/cars_train_annos.mat", "cars_train", "cars_test")


def read_archive(root: Path, layout: tuple[str, ...]) -> ArchiveListing:
    """Reads the annotations of the single archive or of the development kit, where classes count from 1.

    The original training and test images are a classification split: they are joined here.
    """
    if layout == _SINGLE_ARCHIVE:
        annotations = _mat(root / "cars_annos.mat")
        names = annotations["class_names"]
        listed = _rows(annotations, "relative_im_path", root)
    else:
        names = _mat(root / "devkit/cars_meta.mat")["class_names"]
        listed = _rows(_mat(root / layout[1]), "fname", _image_folder(root, "cars_train"))
        listed += _rows(_mat(root / layout[-1]), "fname", _image_folder(root, "cars_test"))
    class_ids = [class_id for _, class_id in listed]
    if not all(0 <= class_id < len(names) for class_id in class_ids):
        raise ValueError(
            f"`{root}` must have classes 1 to {len(names)} in its annotations, "
            f"got {min(class_ids) + 1} to {max(class_ids) + 1}."
        )
    return ArchiveListing(
        [path for path, _ in listed], class_ids, {i: str(name) for i, name in enumerate(names)}
    )


def _mat(path: Path) -> dict[str, np.ndarray]:
    # Imported here, since it is slow and other data sets do not need it.
    from scipy.io import loadmat

    content = loadmat(str(path), squeeze_me=True)
    return {key: np.atleast_1d(value) for key, value in content.items() if not key.startswith("__")}


def _rows(annotations: dict[str, np.ndarray], path_field: str, folder: Path) -> list[tuple[str, int]]:
    return [(str(folder / str(row[path_field])), int(row["class"]) - 1) for row in annotations["annotations"]]


def _image_folder(root: Path, name: str) -> Path:
    """Returns the folder of the images; some copies have a folder within a folder of the same name."""
    nested = root / name / name
    return nested if nested.is_dir() else root / name


def _class_of(example: dict[str, Any], features: dict[str, Any]) -> tuple[int, str]:
    class_id = int(example["label"])
    return class_id, features["label"].int2str(class_id)


CARS196 = OfficialDataset(
    name="cars196",
    title="Cars196",
    num_train_classes=98,
    num_train_images=8_054,
    num_test_images=8_131,
    folders=("cars196", "car196", "stanford_cars"),
    layouts=(_SINGLE_ARCHIVE, (*_DEVKIT, _TEST_LABELS), (*_DEVKIT, f"devkit/{_TEST_LABELS}")),
    read_archive=read_archive,
    tfds_reader=TfdsReader("cars196", ("label",), _class_of),
    sources=(
        "The original host (ai.stanford.edu/~jkrause) no longer serves it, nor does TensorFlow Datasets.",
        "https://www.kaggle.com/datasets/jessicali9530/stanford-cars-dataset (the images)",
        "https://github.com/pytorch/vision/issues/7545 (devkit and cars_test_annos_withlabels.mat;",
        "  the development kit's own cars_test_annos.mat has no classes)",
    ),
)
