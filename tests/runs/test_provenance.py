import pytest

from profs_tf.config import Config
from profs_tf.runs.directory import RunFolder
from profs_tf.runs.provenance import origin_of


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"backbone": "resnet50", "pretrained": "imagenet"}, "read from imagenet. The published ones: keras"),
        ({"backbone": "resnet50", "pretrained": "imagenet"}, "MIT License"),
        ({"backbone": "inception_v1", "pretrained": "file"}, "its repository is under the Apache License"),
        ({"backbone": "bn_inception", "pretrained": "file"}, "no licence comes with the file"),
        ({"backbone": "googlenet", "pretrained": "file"}, "released for unrestricted use"),
        ({"backbone": "conv4", "seed": 5}, "random (seed 5)"),
        ({"backbone": "resnet50", "seed": 5}, "random (seed 5)"),
        ({"backbone": "keras_cv:resnet18_imagenet"}, "the KerasCV preset's"),
        (
            {"backbone": "own/model.keras"},
            "those of own/model.keras, under the licence of whoever",
        ),
    ],
)
def test_names_origin_and_licence(values, text):
    assert text in origin_of(Config(**values))


def test_goes_back_beyond_other_runs_even_when_they_are_gone(tmp_path):
    first, second, third = (RunFolder(tmp_path / name) for name in ("first", "second", "third"))
    first.create(Config(backbone="resnet50", pretrained="imagenet"))
    second.create(Config(backbone="resnet50", initial_run=str(first.path)))
    second.write_origin(first.read_origin())
    first.discard_unless_trained()
    third.create(Config(backbone="resnet50", initial_run=str(second.path)))
    third.write_origin(second.read_origin())
    second.discard_unless_trained()
    assert [path.name for path in tmp_path.iterdir()] == ["third"]
    text = third.read_origin()
    assert text.startswith(f"of the best epoch of the run {second.path}, whose own were of the best epoch of")
    assert f"{first.path}, whose own were read from imagenet" in text
    assert "MIT License" in text


def test_of_a_run_that_wrote_none_says_what_its_configuration_says(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.create(Config(initial_run="gone"))
    assert folder.read_origin() == "of the best epoch of the run gone"
