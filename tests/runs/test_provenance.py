import dataclasses

import pytest

from profs_tf import backbones
from profs_tf.config import Config
from profs_tf.runs.directory import RunFolder
from profs_tf.runs.provenance import check_initial_weights, origin_of


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"backbone": "resnet50", "pretrained": "imagenet"}, "read from imagenet. The published ones: keras"),
        ({"backbone": "resnet50", "pretrained": "imagenet"}, "MIT License"),
        ({"backbone": "inception_v1", "pretrained": "file"}, "its repository is under the Apache License"),
        ({"backbone": "bn_inception", "pretrained": "file"}, "the file states no license"),
        ({"backbone": "googlenet", "pretrained": "file"}, "released for unrestricted use"),
        ({"backbone": "conv4", "seed": 5}, "random (seed 5)"),
        ({"backbone": "resnet50", "seed": 5}, "random (seed 5)"),
        ({"backbone": "keras_cv:resnet18_imagenet"}, "the KerasCV preset's"),
        (
            {"backbone": "of_a_later_version"},
            "unknown: of_a_later_version is neither a backbone of this version",
        ),
        ({"backbone": "conv4", "pretrained": "file"}, "unknown: read from file, but no weights of conv4"),
    ],
)
def test_names_origin_and_license(values, text):
    assert text in origin_of(Config(**values))


def test_a_keras_model_is_under_the_license_of_its_author_only_if_it_exists(tmp_path):
    path = tmp_path / "model.keras"
    path.write_bytes(b"")
    assert (
        origin_of(Config(backbone=str(path))) == f"those of {path}, under the license of whoever trained it"
    )
    path.unlink()
    assert origin_of(Config(backbone=str(path))).startswith(f"unknown: {path} is neither a backbone of")


def test_every_registered_backbone_starts_from_random_weights_unless_told_otherwise():
    for name in backbones.names():
        assert origin_of(Config(backbone=name)) == "random (seed 0)"


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


@pytest.mark.parametrize(
    ("backbone", "message"),
    [
        (
            "inception_v1",
            "--pretrained=FILE, a TensorFlow checkpoint of TF-Slim, published at http://.*v1.*gz; or",
        ),
        ("conv4", "need a pretrained conv4: pass --pretrained=FILE; or --pretrained=none for random weights"),
    ],
)
def test_settings_that_need_pretrained_weights_refuse_random_ones_unless_told_otherwise(backbone, message):
    config = Config(backbone=backbone, require_pretrained=True)
    with pytest.raises(ValueError, match=f"`pretrained` must be given, since .*{message}"):
        check_initial_weights(config)
    for chosen in ({"pretrained": "none"}, {"pretrained": "a file"}, {"initial_run": "runs/other"}):
        check_initial_weights(dataclasses.replace(config, **chosen))
    check_initial_weights(dataclasses.replace(config, require_pretrained=False))
    check_initial_weights(dataclasses.replace(config, backbone="keras_cv:resnet18_imagenet"))


def test_none_is_random():
    config = Config(backbone="inception_v1", pretrained="none", seed=3)
    assert config.pretrained_weights is None
    assert origin_of(config) == "random (seed 3)"
