"""The one weights file: what it holds, that Keras reads it, what is refused, on a network of two layers."""

import hashlib
import re

import h5py
import numpy as np
import pytest
import tensorflow as tf

from profs_tf.backbones.weights.archive import is_archive, load_archive, read_manifest, save_archive


def network(name="net", filters=4, more=False):
    images = tf.keras.Input((None, None, 3))
    x = tf.keras.layers.Rescaling(1.0, offset=[-3.0, -2.0, -1.0], name="rescale")(images)
    x = tf.keras.layers.Conv2D(filters, 3, name="Block.conv")(x)
    x = tf.keras.layers.BatchNormalization(name="Block.conv_bn")(x)
    if more:
        x = tf.keras.layers.Conv2D(1, 1, name="more")(x)
    model = tf.keras.Model(images, x, name=name)
    rng = np.random.default_rng(0)
    model.set_weights([rng.uniform(0.5, 1, value.shape) for value in model.get_weights()])
    return model


@pytest.fixture
def saved(tmp_path):
    """A model, the path of its file and the manifest."""
    source = tmp_path / "published.bin"
    source.write_bytes(b"weights")
    model = network()
    path = tmp_path / "net.h5"
    manifest = save_archive(model, str(path), [str(source)])
    assert sorted(file.name for file in tmp_path.iterdir()) == ["net.h5", "published.bin"]
    return model, path, manifest


def zeros(**options):
    model = network(**options)
    model.set_weights([np.zeros_like(value) for value in model.get_weights()])
    return model


def test_every_weight_comes_back(saved):
    model, path, _ = saved
    other = zeros()
    load_archive(other, str(path))
    for left, right in zip(model.get_weights(), other.get_weights()):
        np.testing.assert_array_equal(left, right)


def test_keras_reads_it(saved):
    model, path, _ = saved
    other = zeros()
    other.load_weights(str(path))
    for left, right in zip(model.get_weights(), other.get_weights()):
        np.testing.assert_array_equal(left, right)


def test_the_manifest(saved):
    model, path, manifest = saved
    assert read_manifest(str(path)) == manifest
    assert manifest["backbone"] == "net"
    assert manifest["preprocessing"] == {
        "images": "RGB, values 0..255",
        "scale": 1.0,
        "offset": [-3.0, -2.0, -1.0],
    }
    assert manifest["source"] == {"published.bin": hashlib.sha256(b"weights").hexdigest()}
    assert manifest["weights"][:2] == [
        {"name": "Block.conv/kernel", "shape": [3, 3, 3, 4]},
        {"name": "Block.conv/bias", "shape": [4]},
    ]
    digest = hashlib.sha256()
    for weight, value in zip(manifest["weights"], (variable.numpy() for variable in model.weights)):
        assert weight["shape"] == list(value.shape)
        digest.update(f"{weight['name']} {weight['shape']}\n".encode() + value.tobytes())
    # Layer by layer: trainable weights and statistics of one layer follow each other.
    assert len(manifest["weights"]) == 6
    assert manifest["sha256"] == digest.hexdigest()


def test_it_knows_its_files(saved, tmp_path):
    assert is_archive(saved[1])
    plain = tmp_path / "plain.h5"
    saved[0].save_weights(plain)
    assert not is_archive(plain)
    assert not is_archive(tmp_path / "published.bin")
    assert not is_archive(tmp_path)
    assert not is_archive("nothing.h5")
    assert not is_archive("imagenet")


def refused(path, message, **options):
    model = zeros(**options)
    with pytest.raises(ValueError, match=message) as caught:
        load_archive(model, str(path))
    assert re.match("`pretrained` must ", str(caught.value))
    assert str(path) in str(caught.value)
    assert not any(np.any(value) for value in model.get_weights())


def test_weights_of_another_network(saved):
    refused(saved[1], "weights of other, got .* of net", name="other")
    refused(saved[1], r"conv/kernel has shape \[3, 3, 3, 4\] instead of \[3, 3, 3, 5\]", filters=5)
    refused(saved[1], "more/kernel is missing", more=True)


def change(path, name, value):
    with h5py.File(path, "a") as file:
        del file[name]
        if value is not None:
            file[name] = value


def test_a_changed_weight(saved):
    change(saved[1], "Block.conv/Block.conv/bias:0", np.full(4, 0.5, np.float32))
    refused(saved[1], "with another SHA-256. The file is damaged or was changed")


def test_a_missing_weight(saved):
    change(saved[1], "Block.conv/Block.conv/bias:0", None)
    refused(saved[1], "must be a complete file")


@pytest.mark.parametrize("manifest", ["", "{", "[]", '{"format": "profs_tf backbone weights, version 2"}'])
def test_another_manifest(saved, manifest):
    change(saved[1], "manifest", manifest)
    refused(saved[1], "must hold a manifest|must be profs_tf backbone weights, version 1")


@pytest.mark.parametrize("kept", [0.2, 0.6, 0.95])
def test_a_truncated_file(saved, kept):
    content = saved[1].read_bytes()
    saved[1].write_bytes(content[: int(kept * len(content))])
    refused(saved[1], "`pretrained` must")
    with pytest.raises(ValueError, match="`pretrained` must be a complete HDF5 file"):
        is_archive(saved[1])


def test_nothing_is_left_of_a_failed_conversion(tmp_path):
    with pytest.raises(OSError, match="nothing"):
        save_archive(network(), str(tmp_path / "net.h5"), [str(tmp_path / "nothing")])
    assert not list(tmp_path.iterdir())
