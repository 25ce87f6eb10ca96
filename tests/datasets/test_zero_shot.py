"""Tiny copies in each official layout, and prepared by TensorFlow Datasets, must be read alike."""

import dataclasses
import io
import logging
import os
import shutil
from collections import defaultdict

import numpy as np
import pytest
import scipy.io
import tensorflow_datasets as tfds
from PIL import Image

from profs_tf import datasets
from profs_tf.datasets.cars196 import CARS196
from profs_tf.datasets.cub200 import CUB200
from profs_tf.datasets.sop import SOP

# Class numbers counted from 0; two on each side of each protocol's boundary.
CLASSES = {"cub200": (0, 99, 100, 199), "cars196": (0, 97, 98, 195), "sop": (0, 11_317, 11_318, 22_633)}
SIZES = (3, 2, 2, 4)  # images of each of these classes
FULL = {"cub200": CUB200, "cars196": CARS196, "sop": SOP}
TINY = {
    name: dataclasses.replace(dataset, num_train_images=5, num_test_images=6)
    for name, dataset in FULL.items()
}


def picture(class_id, image):
    """The bytes of a JPEG file that is the only one of its kind."""
    buffer = io.BytesIO()
    colour = (class_id % 256, class_id // 256, 40 * image)
    Image.new("RGB", (8, 8), colour).save(buffer, "JPEG", quality=95)
    return buffer.getvalue()


def examples(name):
    return [(c, i) for c, size in zip(CLASSES[name], SIZES) for i in range(size)]


def save(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def write_cub(root):
    lines, labels = [], []
    # The archive numbers images from 1; the order of the lines is not that of the classes.
    for number, (c, i) in enumerate(reversed(examples("cub200")), 1):
        path = f"{c + 1:03d}.Bird_{c}/Bird_{c}_{i:04d}.jpg"
        save(root / "images" / path, picture(c, i))
        lines.append(f"{number} {path}\n")
        labels.append(f"{number} {c + 1}\n")
    save(root / "images.txt", "".join(lines))
    save(root / "image_class_labels.txt", "".join(labels))


def car_names():
    return [f"Make {c} Coupe 2012" for c in range(196)]


def annotations(path_field, rows):
    fields = [("bbox_x1", "O"), ("class", "O"), (path_field, "O")]
    return np.array([(1, c + 1, path) for path, c in rows], dtype=fields)


def write_cars_in_one_piece(root):
    rows = []
    for number, (c, i) in enumerate(examples("cars196"), 1):
        rows.append((f"car_ims/{number:06d}.jpg", c))
        save(root / rows[-1][0], picture(c, i))
    content = {"annotations": annotations("relative_im_path", rows)}
    content["class_names"] = np.array(car_names(), dtype=object)
    scipy.io.savemat(str(root / "cars_annos.mat"), content)


def write_cars_devkit(root, labels_folder="", images_folder=""):
    rows = {"train": [], "test": []}
    for c, i in examples("cars196"):
        part = "train" if i % 2 == 0 else "test"  # a classification split: each class is on both sides
        rows[part].append((f"{len(rows[part]) + 1:05d}.jpg", c))
        folder = root / f"cars_{part}" / images_folder.format(part)
        save(folder / rows[part][-1][0], picture(c, i))
    (root / "devkit").mkdir()
    names = {"class_names": np.array(car_names(), dtype=object)}
    scipy.io.savemat(str(root / "devkit/cars_meta.mat"), names)
    for path, part in (
        ("devkit/cars_train_annos.mat", "train"),
        (f"{labels_folder}cars_test_annos_withlabels.mat", "test"),
    ):
        scipy.io.savemat(str(root / path), {"annotations": annotations("fname", rows[part])})


def write_sop(root):
    lines = {"train": [], "test": []}
    for number, (c, i) in enumerate(examples("sop"), 1):
        path = f"toaster_final/{c}_{i}.JPG"
        save(root / path, picture(c, i))
        lines["train" if c < 11_318 else "test"].append(f"{number} {c + 1} 12 {path}\n")
    for part, rows in lines.items():
        save(root / f"Ebay_{part}.txt", "image_id class_id super_class_id path\n" + "".join(rows))


LAYOUTS = {
    "cub200": ("cub200", "CUB_200_2011", write_cub),
    "cars196 in one piece": ("cars196", "car196", write_cars_in_one_piece),
    "cars196 devkit": ("cars196", "stanford_cars", write_cars_devkit),
    "cars196 labels in devkit": ("cars196", "cars196", lambda root: write_cars_devkit(root, "devkit/")),
    "cars196 nested": ("cars196", "cars196", lambda root: write_cars_devkit(root, "", "cars_{}")),
    "sop": ("sop", "Stanford_Online_Products", write_sop),
}


def contents(image_list):
    """Class name -> the set of its files' bytes."""
    found = defaultdict(set)
    for path, label in zip(image_list.images, image_list.labels):
        with open(path, "rb") as file:
            found[image_list.class_names[label]].add(file.read())
    return found


def expected_contents(name, train):
    class_name = {
        "cub200": lambda c: f"{c + 1:03d}.Bird_{c}",
        "cars196": lambda c: f"Make {c} Coupe 2012",
        "sop": lambda c: f"toaster_{c + 1}",
    }[name]
    classes = CLASSES[name][:2] if train else CLASSES[name][2:]
    found = {class_name(c): set() for c in classes}
    for c, i in examples(name):
        if c in classes:
            found[class_name(c)].add(picture(c, i))
    return found


def check(name, train, test):
    assert contents(train) == expected_contents(name, True)
    assert contents(test) == expected_contents(name, False)
    assert train.class_sizes.tolist() == [3, 2]
    assert test.class_sizes.tolist() == [2, 4]
    assert (train.name, test.name) == (f"{name} train", f"{name} test")
    for part in (train, test):
        order = [(label, path) for label, path in zip(part.labels, part.images)]
        assert order == sorted(order)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("parent", [False, True], ids=["the folder itself", "its parent"])
def test_an_official_archive_is_split_by_class(tmp_path, layout, parent):
    name, folder, write = LAYOUTS[layout]
    root = tmp_path / folder
    root.mkdir()
    write(root)
    check(name, *TINY[name].load(tmp_path if parent else str(root)))


def tfds_examples(name):
    for c, i in examples(name):
        part = "train" if (c < 11_318 if name == "sop" else i % 2 == 0) else "test"
        image = io.BytesIO(picture(c, i))
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
    """The dataset's own car names are given by TFDS; the tiny archives have made-up ones."""

    def name(self, value):
        return car_names()[value] if self.num_classes == 196 else int2str(self, value)

    return name


@pytest.mark.parametrize("name", FULL)
def test_a_prepared_tensorflow_dataset_gives_the_same(tmp_path, builders_without_network, name, monkeypatch):
    with pytest.raises(datasets.DatasetNotFoundError):
        TINY[name].load(tmp_path)
    check(name, *TINY[name].load(tmp_path, download=True))
    # The second time nothing is prepared or written; the place can also come from the environment.
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(tfds, "builder_from_directory", None)
    check(name, *TINY[name].load())


def test_a_killed_run_leaves_no_half_written_pictures(tmp_path, builders_without_network, monkeypatch):
    TINY["sop"].load(tmp_path, download=True)
    images = tmp_path / "profs_tf_images"
    shutil.rmtree(images)
    reader = dataclasses.replace(
        SOP.tfds_reader, class_of=lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        dataclasses.replace(TINY["sop"], tfds_reader=reader).load(tmp_path)
    assert not [path for path in images.rglob("*") if path.is_file()]
    check("sop", *TINY["sop"].load(tmp_path))


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


@pytest.mark.parametrize("name", FULL)
def test_without_data_the_error_says_what_where_and_how(tmp_path, name, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "tfds"))
    dataset = FULL[name]
    with pytest.raises(FileNotFoundError) as here:
        datasets.load(name)
    with pytest.raises(FileNotFoundError) as there:
        datasets.load(name, data_dir=tmp_path)
    for message in (str(here.value), str(there.value)):
        assert message.startswith(f"{dataset.title} was not found.\n")
        assert f"no prepared TensorFlow dataset {dataset.tfds_reader.name}" in message
        assert all(source in message for source in dataset.sources)
        assert "--data_dir=FOLDER" in message
        assert f"({dataset.folders[0]} with {', '.join(dataset.layouts[0])})" in message
    assert str(tmp_path / "tfds") in str(here.value)
    for folder in (tmp_path, tmp_path / dataset.folders[0]):
        for part in dataset.layouts[0]:
            assert part in str(there.value)
        assert f"  {folder}: no " in str(there.value)


def test_the_missing_part_of_a_layout_is_named(tmp_path):
    write_cars_devkit(tmp_path)
    os.rename(tmp_path / "cars_test_annos_withlabels.mat", tmp_path / "devkit/cars_test_annos.mat")
    with pytest.raises(FileNotFoundError) as error:
        CARS196.load(tmp_path)
    assert f"  {tmp_path}: no devkit/cars_test_annos_withlabels.mat\n" in str(error.value)
    assert "cars_test_annos.mat has no classes" in str(error.value)


def test_a_partial_copy_is_refused_or_taken_with_its_count(tmp_path, caplog):
    write_cub(tmp_path)
    gone = tmp_path / "images/001.Bird_0/Bird_0_0001.jpg"
    gone.unlink()
    shutil.rmtree(tmp_path / "images/101.Bird_100")
    with pytest.raises(
        ValueError,
        match=r"CUB-200-2011 must have 5 training and 6 test images, got 4 and 4 \(3 files are missing, "
        r"such as .*\)\. Complete the copy, or pass allow_partial_data=True",
    ):
        TINY["cub200"].load(tmp_path)
    with caplog.at_level(logging.WARNING):
        train, test = TINY["cub200"].load(tmp_path, allow_partial_data=True)
    assert "got 4 and 4" in caplog.text
    assert str(gone) not in train.images
    assert (train.class_sizes.tolist(), test.class_sizes.tolist()) == ([2, 2], [4])
    assert test.class_names == ("200.Bird_199",)


def test_a_copy_without_any_test_image_is_refused_also_when_partial(tmp_path):
    write_cub(tmp_path)
    for folder in ("101.Bird_100", "200.Bird_199"):
        shutil.rmtree(tmp_path / "images" / folder)
    with pytest.raises(ValueError, match="got 5 and 0"):
        TINY["cub200"].load(tmp_path, allow_partial_data=True)


def test_the_protocols_are_those_of_the_paper():
    assert {
        name: (d.num_train_classes, d.num_train_images, d.num_test_images) for name, d in FULL.items()
    } == {
        "cub200": (100, 5_864, 5_924),
        "cars196": (98, 8_054, 8_131),
        "sop": (11_318, 59_551, 60_502),
    }


@pytest.mark.parametrize(
    ("damage", "name", "message"),
    [
        (("image_class_labels.txt", "1 1\n"), "cub200", "must have a class for each image .* 1 and 11 lines"),
        (("Ebay_test.txt", "a b c\n1 2 3\n"), "sop", r"must have the columns class_id, path, got \['a'"),
    ],
)
def test_inconsistent_annotations_are_refused(tmp_path, damage, name, message):
    {"cub200": write_cub, "sop": write_sop}[name](tmp_path)
    (tmp_path / damage[0]).write_text(damage[1])
    with pytest.raises(ValueError, match=message):
        TINY[name].load(tmp_path)


def test_car_classes_out_of_range_are_refused(tmp_path):
    write_cars_in_one_piece(tmp_path)
    rows = annotations("relative_im_path", [("car_ims/000001.jpg", 196)])
    content = {"annotations": rows, "class_names": np.array(car_names(), dtype=object)}
    scipy.io.savemat(str(tmp_path / "cars_annos.mat"), content)
    with pytest.raises(ValueError, match="must have classes 1 to 196 .* got 197 to 197"):
        TINY["cars196"].load(tmp_path)
