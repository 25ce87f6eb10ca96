import os

import numpy as np
import pytest
import scipy.io

from profs_tf.datasets.cars196 import CARS196
from tests.datasets.official_archives import (
    TINY,
    annotations,
    car_names,
    write_cars_devkit,
    write_cars_in_one_piece,
)


def test_test_annotations_without_classes_are_refused(tmp_path):
    write_cars_devkit(tmp_path)
    os.rename(tmp_path / "cars_test_annos_withlabels.mat", tmp_path / "devkit/cars_test_annos.mat")
    with pytest.raises(FileNotFoundError) as error:
        CARS196.load(tmp_path)
    assert f"  {tmp_path}: no devkit/cars_test_annos_withlabels.mat\n" in str(error.value)
    assert "cars_test_annos.mat has no classes" in str(error.value)


def test_classes_out_of_range_are_refused(tmp_path):
    write_cars_in_one_piece(tmp_path)
    rows = annotations("relative_im_path", [("car_ims/000001.jpg", 196)])
    content = {"annotations": rows, "class_names": np.array(car_names(), dtype=object)}
    scipy.io.savemat(str(tmp_path / "cars_annos.mat"), content)
    with pytest.raises(ValueError, match="must have classes 1 to 196 .* got 197 to 197"):
        TINY["cars196"].load(tmp_path)


def test_corrupt_annotations_are_refused(tmp_path):
    write_cars_in_one_piece(tmp_path)
    path = tmp_path / "cars_annos.mat"
    whole = path.read_bytes()
    for content in (b"", b"text", whole[: len(whole) // 2], whole[:500] + b"\0" * 400 + whole[900:]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="Cars196 in .* cannot be read: .* Unpack the archive again"):
            TINY["cars196"].load(tmp_path)
    scipy.io.savemat(str(path), {"something": 1})
    with pytest.raises(ValueError, match=r"cannot be read: KeyError\('class_names'\)"):
        TINY["cars196"].load(tmp_path)
