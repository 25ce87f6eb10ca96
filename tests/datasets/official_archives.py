"""Tiny copies of the official archives in each layout, and what they must be read as."""

import dataclasses
import io
from collections import defaultdict

import numpy as np
import scipy.io
from PIL import Image

from profs_tf.datasets.cars196 import CARS196
from profs_tf.datasets.cub200 import CUB200
from profs_tf.datasets.sop import SOP

# Class numbers counted from 0; two on each side of each split.
CLASSES = {"cub200": (0, 99, 100, 199), "cars196": (0, 97, 98, 195), "sop": (0, 11_317, 11_318, 22_633)}
SIZES = (3, 2, 2, 4)  # images of each of these classes
FULL = {"cub200": CUB200, "cars196": CARS196, "sop": SOP}
TINY = {
    name: dataclasses.replace(dataset, num_train_images=5, num_test_images=6)
    for name, dataset in FULL.items()
}


def encoded_image(class_id, image):
    """The bytes of a JPEG file; all differ."""
    buffer = io.BytesIO()
    color = (class_id % 256, class_id // 256, 40 * image)
    Image.new("RGB", (8, 8), color).save(buffer, "JPEG", quality=95)
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
        save(root / "images" / path, encoded_image(c, i))
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
        save(root / rows[-1][0], encoded_image(c, i))
    content = {"annotations": annotations("relative_im_path", rows)}
    content["class_names"] = np.array(car_names(), dtype=object)
    scipy.io.savemat(str(root / "cars_annos.mat"), content)


def write_cars_devkit(root, labels_folder="", images_folder=""):
    rows = {"train": [], "test": []}
    for c, i in examples("cars196"):
        part = "train" if i % 2 == 0 else "test"  # a classification split: each class is on both sides
        rows[part].append((f"{len(rows[part]) + 1:05d}.jpg", c))
        folder = root / f"cars_{part}" / images_folder.format(part)
        save(folder / rows[part][-1][0], encoded_image(c, i))
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
        save(root / path, encoded_image(c, i))
        lines["train" if c < 11_318 else "test"].append(f"{number} {c + 1} 12 {path}\n")
    for part, rows in lines.items():
        save(root / f"Ebay_{part}.txt", "image_id class_id super_class_id path\n" + "".join(rows))


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
            found[class_name(c)].add(encoded_image(c, i))
    return found


def check_split(name, train, test):
    assert contents(train) == expected_contents(name, True)
    assert contents(test) == expected_contents(name, False)
    assert train.class_sizes.tolist() == [3, 2]
    assert test.class_sizes.tolist() == [2, 4]
    assert (train.name, test.name) == (f"{name} train", f"{name} test")
    for part in (train, test):
        order = [(label, path) for label, path in zip(part.labels, part.images)]
        assert order == sorted(order)
