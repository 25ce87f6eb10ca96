"""Which images a configuration trains and evaluates on."""

import numpy as np
import pytest
from PIL import Image

from profs_tf import datasets
from profs_tf.config import Config
from profs_tf.runs.factory import load_data


@pytest.fixture(scope="module")
def own_pictures(tmp_path_factory):
    """The same eight classes as a folder and as a CSV file."""
    root = tmp_path_factory.mktemp("pictures")
    lines = ["path,label"]
    for number in range(8):
        (root / f"c{number}").mkdir()
        for copy in range(2):
            Image.new("RGB", (8, 8), (number * 30, copy * 90, 0)).save(root / f"c{number}" / f"{copy}.png")
            lines.append(f"c{number}/{copy}.png,c{number}")
    table = root / "list.csv"
    table.write_text("\n".join(lines) + "\n", "utf-8")
    return root, table


def data_sets(own_pictures):
    root, table = own_pictures
    return {"emoji": "emoji", "folder": f"folder:{root}", "csv": f"csv:{table}"}


@pytest.mark.parametrize("kind", ["emoji", "folder", "csv"])
def test_validation_classes_are_training_classes_that_do_not_train(own_pictures, kind):
    name = data_sets(own_pictures)[kind]
    whole_train, test = datasets.load(name)
    train, validation = load_data(Config(dataset=name, validation_classes=0.5))
    assert set(train.class_names) | set(validation.class_names) == set(whole_train.class_names)
    assert not set(train.class_names) & set(validation.class_names)
    assert not set(test.class_names) & (set(train.class_names) | set(validation.class_names))
    assert len(train) + len(validation) == len(whole_train)
    assert validation.num_classes == int(0.5 * whole_train.num_classes)


def test_without_validation_classes_the_test_classes_are_evaluated():
    for one, other in zip(load_data(Config(dataset="emoji")), datasets.load("emoji")):
        assert one.class_names == other.class_names
        np.testing.assert_array_equal(one.labels, other.labels)


def test_validation_classes_reach_the_paper_s_data_sets(monkeypatch):
    """Each is read by `datasets.load`, whose training part alone is parted again."""
    parts = datasets.load("emoji")
    monkeypatch.setattr(datasets, "load", lambda *_, **__: parts)
    for name in ("cub200", "cars196", "sop"):
        train, validation = load_data(Config(dataset=name, validation_classes=0.5))
        assert not set(parts[1].class_names) & (set(train.class_names) | set(validation.class_names))
