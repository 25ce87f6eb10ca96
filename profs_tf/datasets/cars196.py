"""Cars196: 196 car models, 16,185 photographs.

Krause et al., "3D object representations for fine-grained categorization", 2013. 98 models train (8,054
images), 98 test (8,131).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from profs_tf.datasets.tfds_files import TfdsReader
from profs_tf.datasets.zero_shot import Examples, ZeroShotDataset

_ALL_IN_ONE = ("cars_annos.mat", "car_ims")
_TEST_LABELS = "cars_test_annos_withlabels.mat"
_DEVKIT = ("devkit/cars_meta.mat", "devkit/cars_train_annos.mat", "cars_train", "cars_test")


def read_archive(root: Path, layout: tuple[str, ...]) -> Examples:
    """Reads the annotations of the archive in one piece or of the development kit; classes count from 1.

    The original division into training and test images is a classification split: here it is joined again.
    """
    if layout == _ALL_IN_ONE:
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
    return Examples([path for path, _ in listed], class_ids, {i: str(name) for i, name in enumerate(names)})


def _mat(path: Path) -> dict[str, np.ndarray]:
    # SciPy comes with scikit-learn; importing it takes a while that other data sets need not spend.
    from scipy.io import loadmat

    content = loadmat(str(path), squeeze_me=True)
    return {key: np.atleast_1d(value) for key, value in content.items() if not key.startswith("__")}


def _rows(annotations: dict[str, np.ndarray], path_field: str, folder: Path) -> list[tuple[str, int]]:
    return [(str(folder / str(row[path_field])), int(row["class"]) - 1) for row in annotations["annotations"]]


def _image_folder(root: Path, name: str) -> Path:
    """Some copies unpack to a folder in a folder of the same name."""
    nested = root / name / name
    return nested if nested.is_dir() else root / name


def _class_of(example: dict[str, Any], features: dict[str, Any]) -> tuple[int, str]:
    class_id = int(example["label"])
    return class_id, features["label"].int2str(class_id)


CARS196 = ZeroShotDataset(
    name="cars196",
    title="Cars196",
    num_train_classes=98,
    num_train_images=8_054,
    num_test_images=8_131,
    folders=("cars196", "car196", "stanford_cars"),
    layouts=(_ALL_IN_ONE, (*_DEVKIT, _TEST_LABELS), (*_DEVKIT, f"devkit/{_TEST_LABELS}")),
    read_archive=read_archive,
    tfds_reader=TfdsReader("cars196", ("label",), _class_of),
    sources=(
        "The original host (ai.stanford.edu/~jkrause) no longer serves it, also not to TensorFlow Datasets.",
        "https://www.kaggle.com/datasets/jessicali9530/stanford-cars-dataset (the pictures)",
        "https://github.com/pytorch/vision/issues/7545 (devkit and cars_test_annos_withlabels.mat;",
        "  the development kit's own cars_test_annos.mat has no classes)",
    ),
)
