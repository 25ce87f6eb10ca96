"""Caffe's blobs in Keras layers: the order of axes, what is left out and what is refused, on two layers."""

import re
import zipfile
from io import BytesIO

import numpy as np
import pytest
import tensorflow as tf

from profs_tf.backbones.weights.caffe import load_caffe_blobs
from tests.backbones.weights.drawn_arrays import draw

BLOBS = {
    "conv1/3x3/weights": (4, 3, 5, 2),
    "conv1/3x3/biases": (4,),
    "last/weights": (2, 4, 1, 1),
    "last/biases": (2,),
}
EXTRAS = {
    "loss1/conv/weights": (5, 4, 1, 1),
    "loss2/classifier/biases": (5,),
    "loss3/classifier/weights": (5, 2),
}


@pytest.fixture
def model():
    images = tf.keras.Input((None, None, 3))
    x = tf.keras.layers.Conv2D(4, (5, 2), name="conv1.3x3")(images)
    return tf.keras.Model(images, tf.keras.layers.Conv2D(2, 1, name="last")(x), name="net")


def write(folder, values):
    np.savez(folder / "net.npz", **values)
    return folder / "net.npz"


@pytest.mark.parametrize("bgr_input", ["none", "conv1.3x3"])
def test_every_blob_has_its_place(model, tmp_path, bgr_input):
    values = draw({**BLOBS, **EXTRAS})
    load_caffe_blobs(model, write(tmp_path, values), bgr_input)
    kernel, bias = model.get_layer("conv1.3x3").get_weights()
    want = values["conv1/3x3/weights"]
    for out, channel, row, column in np.ndindex(want.shape):
        placed = channel if bgr_input == "none" else 2 - channel
        assert kernel[row, column, placed, out] == want[out, channel, row, column]
    np.testing.assert_array_equal(bias, values["conv1/3x3/biases"])
    last = model.get_layer("last").get_weights()
    np.testing.assert_array_equal(last[0][0, 0], values["last/weights"][:, :, 0, 0].T)
    np.testing.assert_array_equal(last[1], values["last/biases"])


def refused(model, path, message):
    before = model.get_weights()
    with pytest.raises(ValueError, match=message) as caught:
        load_caffe_blobs(model, path, "none")
    assert re.match("`pretrained` must ", str(caught.value))
    assert "net.npz" in str(caught.value)
    for left, right in zip(model.get_weights(), before):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("missing", list(BLOBS)[::3])
def test_one_missing_blob(model, tmp_path, missing):
    values = draw({name: shape for name, shape in BLOBS.items() if name != missing})
    refused(model, write(tmp_path, values), f"Caffe's blobs of net with its 4 .*: {missing} is missing")


@pytest.mark.parametrize("extra", ["conv3/weights", "loss4/fc/weights", "conv1/3x3/scale"])
def test_a_blob_without_place(model, tmp_path, extra):
    refused(model, write(tmp_path, draw({**BLOBS, extra: (2,)})), f"{extra} does not belong to the model")


@pytest.mark.parametrize("shape", [(5, 2, 3, 4), (4, 30)])
def test_a_kernel_in_another_order(model, tmp_path, shape):
    path = write(tmp_path, draw({**BLOBS, "conv1/3x3/weights": shape}))
    refused(model, path, re.escape(f"conv1/3x3/weights has shape {list(shape)} instead of [4, 3, 5, 2]"))


def test_weights_that_are_not_finite(model, tmp_path):
    values = draw(BLOBS)
    values["last/biases"][1] = np.inf
    refused(model, write(tmp_path, values), "finite weights.*NaN or infinite: 1 of \\d+ in last/biases")


@pytest.mark.parametrize("bad", [np.array(["x"]), np.array([1, 2])])
def test_what_is_no_floating_point_array(model, tmp_path, bad):
    refused(model, write(tmp_path, {**draw(BLOBS), "last/biases": bad}), "floating-point.*last/biases")


def test_pickled_objects_are_not_read(model, tmp_path):
    path = write(tmp_path, {**draw(BLOBS), "x": np.array([{}], object)})
    refused(model, path, "x.npy holds Python objects, which are not unpickled")


@pytest.mark.parametrize("kept", [0.0, 0.4, 0.99])
def test_a_truncated_file(model, tmp_path, kept):
    path = write(tmp_path, draw(BLOBS))
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content))])
    refused(model, path, "must be a complete .npz file")


def test_an_encrypted_member_and_an_unknown_compression(model, tmp_path):
    path = write(tmp_path, draw(BLOBS))
    content = path.read_bytes()
    # The flags and the method stand in the local headers and in the central directory.
    for skipped, value, message in ((2, b"\1\0", "encrypted"), (4, b"c\0", "compression method is not")):
        header = rb"(PK\x03\x04.{%d}|PK\x01\x02.{%d}).." % (skipped, skipped + 2)
        path.write_bytes(
            re.sub(header, lambda found, value=value: found[1] + value, content, flags=re.DOTALL)
        )
        refused(model, path, f"complete .npz file.*{message}")


def header_of(shape):
    content = BytesIO()
    np.lib.format.write_array_header_1_0(content, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return content.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        header_of((2**40,)) + bytes(8),  # NumPy would allocate four terabytes
        header_of((2,)) + bytes(4),
        header_of((2,)).replace(b"), }", b"), ("),  # its parser raises TokenError
        b"\x93NUMPY\x09\x00",
        b"",
    ],
    ids=["more than the file", "cut short", "header", "version", "empty"],
)
def test_a_member_that_is_not_a_whole_array(model, tmp_path, content):
    path = tmp_path / "net.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("last/biases.npy", content)
    refused(model, path, "complete .npz file")


def test_members_that_unpack_to_much_more_than_the_file(model, tmp_path):
    path = tmp_path / "net.npz"
    np.savez_compressed(path, **draw(BLOBS), **{"loss1/weights": np.zeros(10**6, np.float32)})
    refused(model, path, "loss1/weights.npy is compressed by more than weights can be")


def test_members_that_overlap(model, tmp_path):
    path = tmp_path / "net.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", bytes(1000))
        for number in range(9):
            copy = zipfile.ZipInfo(f"{number}.npy")
            for name in ("CRC", "compress_size", "file_size", "header_offset"):
                setattr(copy, name, getattr(archive.filelist[0], name))
            archive.filelist.append(copy)
    refused(model, path, "its members overlap")


def test_compressed_weights_and_arrays_in_columns_are_read(model, tmp_path):
    values = draw(BLOBS)
    path = tmp_path / "net.npz"
    np.savez_compressed(path, **{name: np.asfortranarray(value) for name, value in values.items()})
    load_caffe_blobs(model, path, "none")
    np.testing.assert_array_equal(
        model.get_layer("conv1.3x3").get_weights()[0], values["conv1/3x3/weights"].transpose(2, 3, 1, 0)
    )


def test_no_such_file(model, tmp_path):
    refused(model, tmp_path / "no" / "net.npz", "must be a complete .npz file")
