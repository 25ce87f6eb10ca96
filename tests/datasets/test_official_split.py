"""Tiny copies in each official layout must be read alike."""

import logging
import shutil

import pytest

from profs_tf import datasets
from tests.datasets.official_archives import (
    FULL,
    TINY,
    check_split,
    write_cars_devkit,
    write_cars_in_one_piece,
    write_cub,
    write_sop,
)

LAYOUTS = {
    "cub200": ("cub200", "CUB_200_2011", write_cub),
    "cars196 in one piece": ("cars196", "car196", write_cars_in_one_piece),
    "cars196 devkit": ("cars196", "stanford_cars", write_cars_devkit),
    "cars196 labels in devkit": ("cars196", "cars196", lambda root: write_cars_devkit(root, "devkit/")),
    "cars196 nested": ("cars196", "cars196", lambda root: write_cars_devkit(root, "", "cars_{}")),
    "sop": ("sop", "Stanford_Online_Products", write_sop),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("parent", [False, True], ids=["the folder itself", "its parent"])
def test_an_official_archive_is_split_by_class(tmp_path, layout, parent):
    name, folder, write = LAYOUTS[layout]
    root = tmp_path / folder
    root.mkdir()
    write(root)
    check_split(name, *TINY[name].load(tmp_path if parent else str(root)))


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
        assert f"({dataset.folders[0]} with {', '.join(dataset.layouts[0])}) or its parent." in message
    assert "Set `data_dir` to the folder of the unpacked archive" in str(here.value)
    assert "`data_dir` must be the folder of the unpacked archive" in str(there.value)
    assert str(tmp_path / "tfds") in str(here.value)
    for folder in (tmp_path, tmp_path / dataset.folders[0]):
        for part in dataset.layouts[0]:
            assert part in str(there.value)
        assert f"  {folder}: no " in str(there.value)


def test_a_partial_copy_is_refused_or_accepted_with_its_count(tmp_path, caplog):
    write_cub(tmp_path)
    gone = [
        tmp_path / f"images/{path}.jpg" for path in ("001.Bird_0/Bird_0_0001", "101.Bird_100/Bird_100_0000")
    ]
    for path in gone:
        path.unlink()
    with pytest.raises(
        ValueError,
        match=r"CUB-200-2011 must have 5 training and 6 test images, got 4 and 5 \(2 files are missing, "
        r"such as .*\)\. Complete the copy, or use what exists: `allow_partial_data=True`\.$",
    ):
        TINY["cub200"].load(tmp_path)
    with caplog.at_level(logging.WARNING):
        train, test = TINY["cub200"].load(tmp_path, allow_partial_data=True)
    assert "got 4 and 5" in caplog.text
    assert not {str(path) for path in gone} & {*train.images, *test.images}
    assert (train.class_sizes.tolist(), test.class_sizes.tolist()) == ([2, 2], [1, 4])


@pytest.mark.parametrize("allow_partial_data", [True, False])
@pytest.mark.parametrize(
    ("missing", "got"),
    [
        (
            ["101.Bird_100", "200.Bird_199"],
            "got 5 and 0 .* at least 2 training and 2 test classes, got 2 and 0",
        ),
        (["101.Bird_100"], "got 5 and 4 .* at least 2 training and 2 test classes, got 2 and 1"),
        (["001.Bird_0"], "got 2 and 6 .* at least 2 training and 2 test classes, got 1 and 2"),
    ],
)
def test_a_copy_without_two_classes_in_each_split_must_be_completed(
    missing, got, allow_partial_data, tmp_path
):
    write_cub(tmp_path)
    for folder in missing:
        shutil.rmtree(tmp_path / "images" / folder)
    with pytest.raises(ValueError, match=got) as error:
        TINY["cub200"].load(tmp_path, allow_partial_data)
    assert "Complete the copy: " in str(error.value)
    assert "allow_partial_data" not in str(error.value)


def test_the_splits_are_those_of_the_paper():
    assert {
        name: (d.num_train_classes, d.num_train_images, d.num_test_images) for name, d in FULL.items()
    } == {
        "cub200": (100, 5_864, 5_924),
        "cars196": (98, 8_054, 8_131),
        "sop": (11_318, 59_551, 60_502),
    }
