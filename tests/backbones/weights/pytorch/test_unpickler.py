"""The unpickler of tensors: what it refuses to call, and how much memory a small pickle can make it take."""

import os
import pickle
import re
import struct
import tracemalloc
from io import BytesIO

import numpy as np
import pytest

from profs_tf.backbones.weights.pytorch.unpickler import InvalidStateDictError, TensorUnpickler
from tests.backbones import torch_files
from tests.backbones.torch_files import Calls

STORAGE = np.arange(12, dtype=np.float32)


def load(content):
    return TensorUnpickler(BytesIO(content), "pickle", lambda key, dtype, count: STORAGE.astype(dtype)).load()


def refused(content, message):
    with pytest.raises(InvalidStateDictError, match=message):
        load(content)


def test_tensors_are_views_of_their_storage():
    items = [
        ("transposed", torch_files.tensor(0, STORAGE, (4, 3), (1, 4))),
        ("slice", torch_files.tensor(0, STORAGE, (2, 2), (4, 1), offset=5)),
    ]
    got = load(torch_files.state_dict(items))
    np.testing.assert_array_equal(got["transposed"], STORAGE.reshape(3, 4).T)
    np.testing.assert_array_equal(got["slice"], [[5, 6], [9, 10]])
    assert np.shares_memory(got["transposed"], got["slice"])


def test_a_parameter_is_its_tensor():
    opcodes = b"ctorch._utils\n_rebuild_parameter\n(" + torch_files.tensor(0, STORAGE)
    items = [("w", opcodes + b"\x88" + torch_files.ORDERED_DICT + b"tR")]
    np.testing.assert_array_equal(load(torch_files.state_dict(items))["w"], STORAGE)


def test_several_pickles_in_a_row():
    file = BytesIO(pickle.dumps({"a": 1}, 2) + pickle.dumps({"b": 2}, 2) + b"rest")
    assert [TensorUnpickler(file, "pickle", None).load() for _ in range(2)] == [{"a": 1}, {"b": 2}]
    assert file.read() == b"rest"


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_code_is_not_run(tmp_path, protocol):
    trace = tmp_path / "trace"
    content = pickle.dumps({"w": Calls(os.mkdir, str(trace))}, protocol)
    pickle.loads(content)
    trace.rmdir()
    refused(content, r"its pickle asks for \w+\.mkdir, which does not belong to a tensor and was not run")
    assert not trace.exists()


@pytest.mark.parametrize(
    "name",
    ["torch\nBFloat16Storage", "builtins\neval", "torch._utils\n_rebuild_tensor_v2.__globals__",
     "collections\nOrderedDict.__init__", "profs_tf.train\nmain"],
)  # fmt: skip
def test_other_names_are_refused(name):
    content = b"\x80\x04" + b"".join(map(torch_files.text, name.split("\n"))) + b"\x93."
    shown = re.escape(".".join(name.split("\n")))
    refused(content, f"its pickle asks for {shown}, which does not belong to a tensor")


@pytest.mark.parametrize(
    "opcodes",
    [
        b"]r" + struct.pack("<I", 10**8) + b".",  # an entry of the memo far beyond the last
        b"]p100000000\n.",
        b"\x96" + struct.pack("<Q", 10**9) + b".",  # an array of bytes that are not there
        b"X" + struct.pack("<I", 10**9) + b"text.",
        b"\x8e" + struct.pack("<Q", 10**9) + b".",
        b"\x95" + struct.pack("<Q", 10**9) + b"].",
    ],
    ids=["memo", "memo as text", "bytearray", "text", "bytes", "frame"],
)
def test_a_small_pickle_takes_little_memory(opcodes, tmp_path):
    path = tmp_path / "pickle"
    path.write_bytes(b"\x80\x05" + opcodes)
    tracemalloc.start()
    try:
        with open(path, "rb") as file, pytest.raises(InvalidStateDictError, match="its pickle "):
            TensorUnpickler(file, "pickle", None).load()
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
