import pytest

from profs_tf import datasets

VALID = "emoji, cub200, cars196, sop, folder:PATH, csv:PATH"


@pytest.mark.parametrize("name", ["mnist", "", "Emoji", "folder:", "folder", "csv:", "zip:a.zip", "cub200:x"])
def test_unknown_names_list_the_valid_ones(name):
    with pytest.raises(ValueError, match=f"`dataset` must be one of {VALID}, got '{name}'"):
        datasets.load(name)


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("emoji", "data_dir", "/data"),
        ("emoji", "train_classes", 0.5),
        ("emoji", "download", True),
        ("cub200", "train_classes", 0.5),
        ("folder:/data", "data_dir", "/data"),
        ("csv:/data.csv", "allow_partial_data", True),
        ("csv:/data.csv", "download", True),
    ],
)
def test_options_without_use_are_refused(name, option, value):
    with pytest.raises(ValueError, match=f"`{option}` must be left out for {name}"):
        datasets.load(name, **{option: value})


def test_names():
    assert ", ".join(datasets.names()) == VALID
