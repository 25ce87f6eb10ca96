import hashlib
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import profs_tf.datasets
from profs_tf import datasets

FILE = Path(profs_tf.datasets.__file__).parent / "emoji.npz"
NOTICE = Path(__file__).parents[2] / "NOTICE"
SHA256 = "44a1d7edff0e0f0e46d2a06620caa10a92c093d0505afe9119f5e43fc7a3886b"


@pytest.fixture(scope="module")
def archive():
    with np.load(FILE) as content:
        return dict(content)


@pytest.fixture(scope="module")
def parts():
    return datasets.load("emoji")


def test_the_file_is_the_one_that_the_tool_built():
    assert hashlib.sha256(FILE.read_bytes()).hexdigest() == SHA256
    assert FILE.stat().st_size <= 12e6


def test_counts(archive):
    assert archive["images"].shape == (8566, 48, 48, 3)
    assert archive["images"].dtype == np.uint8
    assert archive["labels"].shape == archive["vendors"].shape == (8566,)
    assert len(archive["class_names"]) == len(set(archive["class_names"])) == 1123
    assert len(set(archive["class_code_points"])) == 1123
    assert np.bincount(archive["labels"]).tolist().count(8) == 792
    assert np.bincount(archive["labels"]).min() == 6
    assert np.bincount(archive["vendors"], minlength=8).min() > 800


def test_a_vendor_draws_a_class_once(archive):
    assert len(set(zip(archive["labels"], archive["vendors"]))) == 8566


def test_no_skin_tones_and_no_variation_selector(archive):
    parts = {part for sequence in archive["class_code_points"] for part in sequence.split("-")}
    assert not parts & {"1f3fb", "1f3fc", "1f3fd", "1f3fe", "1f3ff", "fe0f"}


@pytest.mark.parametrize(
    ("code_points", "name"),
    [("1f600", "grinning-face"), ("0030-20e3", "keycap-0"), ("1f469-200d-1f373", "woman-cook")],
)
def test_names_belong_to_code_points(archive, code_points, name):
    index = archive["class_code_points"].tolist().index(code_points)
    assert archive["class_names"][index] == name


def test_the_halves_of_the_recorded_class_order_train_and_test(archive, parts):
    order = archive["class_order"]
    assert sorted(order) == list(range(1123))
    assert not np.array_equal(order, np.sort(order))
    digests = [hashlib.sha256(sequence.encode()).hexdigest() for sequence in archive["class_code_points"]]
    assert [digests[index] for index in order] == sorted(digests)
    for part, classes in zip(parts, (order[:561], order[561:])):
        chosen = np.isin(archive["labels"], classes)
        np.testing.assert_array_equal(part.images, archive["images"][chosen])
        found = [part.class_names[label] for label in part.labels]
        assert found == archive["class_names"][archive["labels"][chosen]].tolist()
    assert not set(parts[0].class_names) & set(parts[1].class_names)
    assert [repr(part) for part in parts] == [
        "ImageList('emoji train': 4281 images of 561 classes, 48x48 in memory)",
        "ImageList('emoji test': 4285 images of 562 classes, 48x48 in memory)",
    ]


def test_no_image_is_blank(archive):
    ink = (archive["images"].min(axis=3) < 255 - 48).mean(axis=(1, 2))
    assert ink.min() >= 0.02
    assert ink.max() <= 1.0
    # Nearly all drawings leave the white background visible at some corner.
    corners = archive["images"][:, [0, 0, -1, -1], [0, -1, 0, -1]]
    assert np.mean((corners > 250).all(axis=2).any(axis=1)) > 0.9


def test_drawings_are_centered(archive):
    ink = archive["images"].min(axis=3) < 250
    for axis, size in ((1, 48), (2, 48)):
        covered = ink.any(axis=3 - axis)
        first = covered.argmax(axis=1)
        last = size - 1 - covered[:, ::-1].argmax(axis=1)
        assert np.abs(np.median(first + last) - (size - 1)) <= 1


def test_no_two_classes_share_an_image_even_flipped(archive):
    classes = defaultdict(set)
    for image, label in zip(archive["images"], archive["labels"]):
        classes[image.tobytes()].add(label)
        classes[image[:, ::-1].tobytes()].add(label)
    assert max(len(labels) for labels in classes.values()) == 1
    assert len({image.tobytes() for image in archive["images"]}) == 8566


def test_every_source_is_credited(archive):
    notice = " ".join(NOTICE.read_text("utf-8").split())
    assert len(archive["sources"]) == len(archive["vendor_names"]) == 8
    for source, vendor in zip(archive["sources"], archive["vendor_names"]):
        package = source[source.index("@iconify-json/") :].split(")")[0]
        assert package.startswith(f"@iconify-json/{vendor} ")
        assert package in notice
        assert source.split(", ")[-1] in notice
        license = source.split(", ")[-2]
        assert {"CC-BY-4.0": "CC BY 4.0", "Apache-2.0": "Apache License 2.0", "MIT": "MIT License"}[
            license
        ] in notice
