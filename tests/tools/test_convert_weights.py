"""From a published file over the converted one and an embedder to a saved model, by the command line."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import profs_tf as profs
from profs_tf import backbones

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import convert_weights as tool

from tests.backbones import torch_files

TORCH_WORDS = {
    "kernel": "weight",
    "bias": "bias",
    "gamma": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
}


def published_kernel(value, first):
    """[height, width, RGB, out] -> [out, BGR, height, width]."""
    return np.transpose(value[:, :, ::-1] if first else value, (3, 2, 0, 1))


def weights_of(network):
    rng = np.random.default_rng(0)
    for layer in network.layers:
        for variable in layer.weights:
            word = variable.name.split("/")[-1].split(":")[0]
            value = variable.numpy() if word == "kernel" else rng.uniform(0.5, 1.5, variable.shape)
            if word == "kernel":
                value = published_kernel(value, layer.name.startswith("conv1"))
            yield layer.name, word, value.astype(np.float32)


def publish_googlenet(folder):
    words = {"kernel": "weights", "bias": "biases"}
    blobs = {
        f"{layer.replace('.', '/')}/{words[word]}": value
        for layer, word, value in weights_of(backbones.get("googlenet")(seed=0))
    }
    np.savez(folder / "published.npz", **blobs)
    return str(folder / "published.npz")


def publish_bn_inception(folder):
    tensors = {
        f"{layer}.{TORCH_WORDS[word]}": value
        for layer, word, value in weights_of(backbones.get("bn_inception")(seed=0))
    }
    return torch_files.save(folder / "published.pth", tensors)


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["convert_weights.py", *arguments])
    return tool.main()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "publish", "file"),
    [
        ("googlenet", publish_googlenet, "embedder.keras"),
        ("bn_inception", publish_bn_inception, "embedder"),
    ],
)
def test_from_published_weights_to_a_saved_model(name, publish, file, tmp_path, monkeypatch, capsys):
    source, output = publish(tmp_path), str(tmp_path / "weights.h5")
    assert run(monkeypatch, name, source, output) == 0
    assert run(monkeypatch, f"--show={output}") == 0
    printed = capsys.readouterr().out.split("\n", 1)
    manifest = json.loads(printed[1])
    assert manifest["sha256"] in printed[0]
    assert manifest["backbone"] == name
    assert manifest["preprocessing"]["offset"][1:] == [-117.0, -104.0]

    images = np.random.default_rng(1).integers(0, 256, (2, 64, 64, 3)).astype(np.float32)
    features = backbones.get(name)(pretrained=source)(images)
    assert np.std(features) > 1e-3
    embedder = profs.build_embedder(name, 8, pretrained=output, seed=0)
    np.testing.assert_array_equal(embedder.get_layer(name)(images), features)
    embedder.save(tmp_path / file)
    loaded = tf.keras.models.load_model(tmp_path / file)
    np.testing.assert_allclose(loaded(images), embedder(images), atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("vgg", "a", "b.h5"), "`backbone` must be one of bn_inception, conv4, "),
        (("googlenet", "nothing.npz", "b.h5"), "`pretrained` must be a complete .npz file"),
        (("googlenet", "nothing.npz", "b.keras"), "`output` must be a new file that ends in .h5"),
        (("conv4", "nothing", "b.h5"), "`pretrained` must be None for conv4"),
        (("--show=nothing.h5",), "`pretrained` must hold a manifest"),
    ],
)
def test_refusals_name_the_cause_and_write_nothing(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, *arguments) == 1
    assert f"convert_weights: {message}" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_existing_file_is_kept(tmp_path, monkeypatch, capsys):
    output = tmp_path / "weights.h5"
    output.write_bytes(b"mine")
    assert run(monkeypatch, "googlenet", "nothing.npz", str(output)) == 1
    assert "`output` must be a new file" in capsys.readouterr().err
    assert output.read_bytes() == b"mine"


def test_without_arguments_it_says_what_it_needs(monkeypatch, capsys):
    with pytest.raises(SystemExit):
        run(monkeypatch, "googlenet")
    assert "BACKBONE, SOURCE and OUTPUT are required" in capsys.readouterr().err


def test_a_checkpoint_in_parts_is_one_source(tmp_path):
    for name in ("net.ckpt.index", "net.ckpt.data-00000-of-00001", "net.ckpt.meta", "other.ckpt.index"):
        (tmp_path / name).write_bytes(b"")
    found = tool.source_files(str(tmp_path / "net.ckpt"))
    assert [Path(file).name for file in found] == ["net.ckpt.data-00000-of-00001", "net.ckpt.index"]
