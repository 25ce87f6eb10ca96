"""Data sets that TensorFlow Datasets prepared, generated in place of being downloaded."""

import dataclasses
import io
import os
import shutil

import numpy as np
import pytest
import tensorflow_datasets as tfds

from profs_tf import datasets
from profs_tf.datasets.cars196 import CARS196
from profs_tf.datasets.sop import SOP
from tests.datasets.official_archives import FULL, TINY, car_names, check_split, encoded_image, examples, save


def tfds_examples(name):
    for c, i in examples(name):
        part = "train" if (c < 11_318 if name == "sop" else i % 2 == 0) else "test"
        image = io.BytesIO(encoded_image(c, i))
        box = tfds.features.BBox(0.0, 0.0, 1.0, 1.0)
        yield (
            part,
            f"{c}_{i}",
            {
                "cub200": {
                    "image": image,
                    "image/filename": f"CUB_200_2011/images/{c + 1:03d}.Bird_{c}/Bird_{c}_{i:04d}.jpg",
                    "label": c,
                    "label_name": f"bird_{c}",
                    "bbox": box,
                    "segmentation_mask": np.zeros((8, 8, 1), np.uint8),
                },
                "cars196": {"image": image, "label": c, "bbox": box, "id": f"{i:05d}"},
                "sop": {
                    "image": image,
                    "class_id": c,
                    "super_class_id": "toaster",
                    "super_class_id/num": 11,
                },
            }[name],
        )


@pytest.fixture
def builders_without_network(monkeypatch):
    """The three builders with their true features, generating the tiny data in place of downloading."""
    for name, dataset in FULL.items():
        builder = tfds.builder_cls(dataset.tfds_reader.name)

        def generate(self, part, name=name):
            for example_part, key, example in tfds_examples(name):
                if example_part == part:
                    yield key, example

        def split(self, _, generate=generate):
            return {part: generate(self, part) for part in ("train", "test")}

        monkeypatch.setattr(builder, "_split_generators", split)
    monkeypatch.setattr(tfds.features.ClassLabel, "int2str", _tiny_car_name(tfds.features.ClassLabel.int2str))


def _tiny_car_name(int2str):
    """TensorFlow Datasets knows the real names of the cars; the tiny archives have invented ones."""

    def name(self, value):
        return car_names()[value] if self.num_classes == 196 else int2str(self, value)

    return name


@pytest.mark.parametrize("name", FULL)
def test_a_prepared_tensorflow_dataset_gives_the_same(tmp_path, builders_without_network, name, monkeypatch):
    with pytest.raises(datasets.DatasetNotFoundError):
        TINY[name].load(tmp_path)
    check_split(name, *TINY[name].load(tmp_path, download=True))
    # The second time nothing is prepared or written; the environment may name the data folder, too.
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(tfds, "builder_from_directory", None)
    check_split(name, *TINY[name].load())


def test_a_killed_process_leaves_no_incomplete_copy(tmp_path, builders_without_network, monkeypatch):
    TINY["sop"].load(tmp_path, download=True)
    images = tmp_path / "profs_tf_images"
    shutil.rmtree(images)
    reader = dataclasses.replace(
        SOP.tfds_reader, class_of=lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        dataclasses.replace(TINY["sop"], tfds_reader=reader).load(tmp_path)
    assert not [path for path in images.rglob("*") if path.is_file()]
    check_split("sop", *TINY["sop"].load(tmp_path))


def test_a_data_folder_that_cannot_be_written_to_is_named(tmp_path, builders_without_network):
    TINY["sop"].load(tmp_path, download=True)
    shutil.rmtree(tmp_path / "profs_tf_images")
    (tmp_path / "profs_tf_images").write_text("in the way")
    with pytest.raises((FileExistsError, NotADirectoryError), match="profs_tf_images"):
        TINY["sop"].load(tmp_path)
    os.remove(tmp_path / "profs_tf_images")
    if os.geteuid() == 0:
        return  # for root every folder is writable
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(PermissionError, match="must be writable, .* pass that as `data_dir`"):
            TINY["sop"].load(tmp_path)
    finally:
        tmp_path.chmod(0o755)


def test_a_half_prepared_dataset_does_not_count(tmp_path):
    save(tmp_path / "cars196/incomplete.ABC_2.1.0/dataset_info.json", "{}")
    with pytest.raises(datasets.DatasetNotFoundError, match="no prepared TensorFlow dataset cars196"):
        CARS196.load(tmp_path)
