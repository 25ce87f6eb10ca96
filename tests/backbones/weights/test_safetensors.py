"""The files are written by hand, after the format's public description."""

import json
import struct

import numpy as np
import pytest
import tensorflow as tf

from profs_tf.backbones.weights.pytorch.state_dict import load_state_dict, read_tensors
from profs_tf.backbones.weights.safetensors import is_safetensors, read_safetensors

# [[1, -2, 0.5]] as little-endian float32, and 1.5 and -2 as bfloat16.
F32 = bytes.fromhex("0000803f000000c00000003f")
BF16 = bytes.fromhex("c03f00c0")
HEADER = {
    "__metadata__": {"format": "pt"},
    "fc.bias": {"dtype": "BF16", "shape": [2], "data_offsets": [12, 16]},
    "conv.weight": {"dtype": "F32", "shape": [1, 3], "data_offsets": [0, 12]},
    "n": {"dtype": "I64", "shape": [], "data_offsets": [16, 24]},
}
DATA = F32 + BF16 + struct.pack("<q", -7)


def write(path, header=HEADER, data=DATA):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return str(path)


def test_reads_names_shapes_types_and_values(tmp_path):
    path = write(tmp_path / "a.safetensors")
    for tensors in (read_safetensors(path), read_tensors(path)):
        assert sorted(tensors) == ["conv.weight", "fc.bias", "n"]
        np.testing.assert_array_equal(tensors["conv.weight"], np.array([[1, -2, 0.5]], np.float32))
        np.testing.assert_array_equal(tensors["fc.bias"], np.array([1.5, -2], np.float32))
        assert tensors["fc.bias"].dtype == np.float32
        assert tensors["n"].shape == ()
        assert tensors["n"] == -7


def test_a_network_is_loaded_from_the_file(tmp_path):
    layer = tf.keras.layers.Conv2D(2, 1, name="conv")
    network = tf.keras.Sequential([tf.keras.Input((4, 4, 3)), layer])
    kernel, bias = np.arange(6, dtype="<f4").reshape(2, 3, 1, 1), np.array([7, 8], "<f4")
    header = {
        "conv.weight": {"dtype": "F32", "shape": [2, 3, 1, 1], "data_offsets": [0, 24]},
        "conv.bias": {"dtype": "F32", "shape": [2], "data_offsets": [24, 32]},
    }
    load_state_dict(network, write(tmp_path / "a.safetensors", header, kernel.tobytes() + bias.tobytes()))
    np.testing.assert_array_equal(layer.kernel[0, 0], kernel[:, :, 0, 0].T)
    np.testing.assert_array_equal(layer.bias, bias)


def test_a_header_may_be_padded_with_spaces(tmp_path):
    text = json.dumps(HEADER).encode()
    assert len(read_safetensors(write(tmp_path / "a", text + b" " * 7))) == 3


def changed(name, **values):
    return {**HEADER, name: {**HEADER[name], **values}}


@pytest.mark.parametrize(
    ("header", "data", "message"),
    [
        (changed("n", data_offsets=[16, 23]), DATA[:-1], "n of I64 .* has 7 bytes"),
        (changed("n", data_offsets=[17, 25]), DATA + b"0", "bytes 17 to 25 of n do not follow"),
        (changed("n", data_offsets=[15, 24]), DATA, "bytes 15 to 24 of n do not follow"),
        (changed("n", data_offsets=[16, 2**60]), DATA, "of n do not follow"),
        (changed("n", data_offsets=[24, 16]), DATA, "of n do not follow"),
        (changed("n", data_offsets=[16.0, 24]), DATA, "must be two whole numbers"),
        (changed("n", data_offsets=[-1, 24]), DATA, "must be two whole numbers"),
        (changed("n", shape=[2**62, 4]), DATA, "n of I64 .* has 8 bytes"),
        (changed("n", shape=[True]), DATA, r"the shape \[True\]"),
        (changed("n", dtype="F8_E4M3"), DATA, "the dtype F8_E4M3"),
        (HEADER, DATA + b"0", "1 bytes at the end belong to no tensor"),
        (HEADER, DATA[:-1], "of n do not follow"),
        (b'{"a": 1}', b"", "a has the data_offsets None"),
        (b'{"a": {}, "a": {}}', b"", "names a tensor twice"),
        (b"{", b"", "the header is no JSON"),
        (b'{"\xff": 1}', b"", "the header is no JSON"),
        (b"{" + b'"a":[' * 100_000, b"", "the header is no JSON"),
    ],
)
def test_files_that_break_the_format_are_refused(tmp_path, header, data, message):
    path = write(tmp_path / "a.safetensors", header, data)
    with pytest.raises(ValueError, match=message):
        read_safetensors(path)
    with pytest.raises(
        ValueError, match=r"`pretrained` must be a complete \.safetensors file, got .*/a\.safe"
    ):
        read_tensors(path)


def test_a_header_longer_than_the_file_is_refused_without_reading_it(tmp_path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(struct.pack("<Q", 2**63) + b"{}")
    with pytest.raises(ValueError, match="the header claims 9223372036854775808 bytes, the file has 10"):
        read_safetensors(str(path))


def test_is_told_by_its_first_bytes():
    assert is_safetensors(struct.pack("<Q", 2) + b"{}")
    assert not is_safetensors(b"PK\x03\x04")
    assert not is_safetensors(b"")
