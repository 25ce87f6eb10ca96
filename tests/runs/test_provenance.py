import dataclasses

import pytest

from profs_tf import backbones
from profs_tf.config import Config
from profs_tf.runs.directory import RunFolder
from profs_tf.runs.provenance import origin_of, with_weights_file


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
        with_weights_file(config)
    for chosen in ({"pretrained": "none"}, {"pretrained": "a file"}, {"initial_run": "runs/other"}):
        with_weights_file(dataclasses.replace(config, **chosen))
    with_weights_file(dataclasses.replace(config, require_pretrained=False))
    with_weights_file(dataclasses.replace(config, backbone="keras_cv:resnet18_imagenet"))


@pytest.mark.parametrize(
    ("backbone", "name", "made"),
    [
        ("inception_v1", "inception_v1.ckpt", "inception_v1.ckpt.index"),
        ("inception_v1", "inception_v1.ckpt", "inception_v1.ckpt"),
        ("bn_inception", "bn_inception-52deb4733.pth", None),
        ("bn_inception", "bn_inception.h5", None),
        ("efficientnet_lite1", "efficientnet-lite1-77cc7160.pth", None),
    ],
)
def test_a_folder_of_weights_is_searched_for_published_names(backbone, name, made, tmp_path):
    config = Config(backbone=backbone, weights_dir=str(tmp_path), require_pretrained=True)
    with pytest.raises(
        FileNotFoundError, match=f"`weights_dir` must hold weights of {backbone}, but there is "
    ):
        with_weights_file(config)
    (tmp_path / (made or name)).write_bytes(b"")
    assert with_weights_file(config).pretrained == str(tmp_path / name)
    for other in ({"pretrained": "none"}, {"initial_run": "run"}):
        assert with_weights_file(dataclasses.replace(config, **other)).pretrained == other.get("pretrained")


def test_a_missing_file_is_named_with_where_it_was_looked_for_and_where_it_is_published(tmp_path):
    config = Config(backbone="bn_inception", weights_dir=str(tmp_path))
    with pytest.raises(FileNotFoundError) as error:
        with_weights_file(config)
    for part in (
        f"there is no {tmp_path}/bn_inception-52deb4733.pth and no {tmp_path}/bn_inception.h5.",
        "a PyTorch state dict or .safetensors file, published at http://data.lip6.fr/",
        "(its SHA-256 starts with 52deb4733)",
        "--pretrained=none",
    ):
        assert part in str(error.value)


def test_a_file_name_is_looked_for_in_the_folder_of_weights(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / "mine.pth").write_bytes(b"")
    (tmp_path / "here.pth").write_bytes(b"")
    config = Config(backbone="bn_inception", weights_dir="weights", pretrained="mine.pth")
    assert with_weights_file(config).pretrained == "weights/mine.pth"
    assert with_weights_file(dataclasses.replace(config, pretrained="here.pth")).pretrained == "here.pth"
    with pytest.raises(FileNotFoundError, match="there is no weights/other.pth. bn_inc"):
        with_weights_file(dataclasses.replace(config, pretrained="other.pth"))
    imagenet = Config(backbone="resnet50", weights_dir="weights", pretrained="imagenet")
    assert with_weights_file(imagenet) == imagenet


def test_a_network_without_published_weights_has_none_to_search_for():
    with pytest.raises(ValueError, match="`weights_dir` must be left out for conv4, which has no published"):
        with_weights_file(Config(backbone="conv4", weights_dir="."))


def test_none_is_random():
    config = Config(backbone="inception_v1", pretrained="none", seed=3)
    assert config.pretrained_weights is None
    assert origin_of(config) == "random (seed 3)"
