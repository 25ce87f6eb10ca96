"""PyTorch's files before 1.6, written byte by byte, and what they must not do."""

import contextlib
import os
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profs_tf.backbones.weights.pytorch.state_dict import read_tensors
from tests.backbones import torch_files
from tests.backbones.torch_files import NOT_A_VIEW, Calls, draw, number, refused, text

VALUES = {
    "conv.weight": draw(4, 3, 5, 5),
    "conv.bias": draw(4),
    "bn.num_batches_tracked": np.array(7, np.int64),
    "double": draw(2, 3, dtype=np.float64),
    "empty": draw(0, 3),
}
STORAGE = np.arange(12, dtype=np.float32)


def write(folder, items, storages, **options):
    path = folder / "net.pth"
    path.write_bytes(torch_files.legacy(torch_files.state_dict(items), storages, **options))
    return path


def of_storage(*arguments, view=NOT_A_VIEW, **options):
    return torch_files.tensor("5", STORAGE, *arguments, view=view, **options)


def test_every_tensor_comes_back(tmp_path):
    got = read_tensors(torch_files.save_legacy(tmp_path / "net.pth", VALUES))
    assert list(got) == list(VALUES)
    for name, value in VALUES.items():
        np.testing.assert_array_equal(got[name], value)
        assert got[name].dtype == value.dtype
        assert got[name].shape == value.shape


def test_the_start_is_pickles_of_what_the_format_says(tmp_path):
    """The bytes that the tests write by hand against the standard library's pickle."""
    with open(torch_files.save_legacy(tmp_path / "net.pth", {}), "rb") as file:
        assert pickle.load(file) == 0x1950A86A20F9469CFC6C
        assert pickle.load(file) == 1001
        assert pickle.load(file) == {
            "protocol_version": 1001,
            "little_endian": True,
            "type_sizes": {"short": 2, "int": 4, "long": 4},
        }
        assert pickle.load(file) == {}
        assert pickle.load(file) == []
        assert file.read() == b""


def test_views_of_one_storage(tmp_path):
    items = [
        ("transposed", of_storage((4, 3), (1, 4))),
        ("slice", of_storage((2, 2), (4, 1), 5)),
        ("empty", of_storage((0, 3), (3, 1))),
    ]
    got = read_tensors(write(tmp_path, items, {"5": STORAGE}))
    np.testing.assert_array_equal(got["transposed"], STORAGE.reshape(3, 4).T)
    np.testing.assert_array_equal(got["slice"], [[5, 6], [9, 10]])
    assert got["empty"].shape == (0, 3)


def view(offset, count):
    return b"(" + text("6") + number(offset) + number(count) + b"t"


def test_a_storage_that_is_a_view_of_another(tmp_path):
    """PyTorch before 0.4 had such; the tensor's offset counts from the view's beginning."""
    items = [("whole", of_storage()), ("w", of_storage((2, 2), (2, 1), 1, view=view(4, 6)))]
    got = read_tensors(write(tmp_path, items, {"5": STORAGE}))
    np.testing.assert_array_equal(got["w"], [[5, 6], [7, 8]])
    np.testing.assert_array_equal(got["whole"], STORAGE)


def test_a_tensor_of_pytorch_before_0_4(tmp_path):
    """It was rebuilt by another function, from storage, offset, sizes and strides alone."""
    new = of_storage((3, 4), (4, 1))
    old = new.replace(b"_rebuild_tensor_v2", b"_rebuild_tensor")
    old = old.replace(b"\x89" + torch_files.ORDERED_DICT, b"")
    got = read_tensors(write(tmp_path, [("w", old)], {"5": STORAGE}))
    np.testing.assert_array_equal(got["w"], STORAGE.reshape(3, 4))


@pytest.mark.parametrize("place", ["protocol", "system", "state dict", "keys"])
def test_code_is_not_run_wherever_it_stands(tmp_path, place):
    trace = tmp_path / "trace"
    code = pickle.dumps(Calls(os.mkdir, str(trace)), 2)
    pickle.loads(code)
    trace.rmdir()
    sound = torch_files.legacy(torch_files.state_dict([]), {})
    pickles = sound.split(b"\x80\x02")
    assert len(pickles) == 6
    at = 2 + ["protocol", "system", "state dict", "keys"].index(place)
    pickles[at] = code[2:]
    path = tmp_path / "net.pth"
    path.write_bytes(b"\x80\x02".join(pickles))
    refused(path, r"its pickle asks for \w+\.mkdir, which does not belong to a tensor and was not run")
    assert not trace.exists()


@pytest.mark.parametrize("name", [b"BFloat16Storage", b"UntypedStorage", b"load"])
def test_an_unknown_type_of_storage(tmp_path, name):
    items = [("w", of_storage().replace(b"FloatStorage", name))]
    refused(write(tmp_path, items, {"5": STORAGE}), f"its pickle asks for torch.{name.decode()}")


def test_a_storage_type_that_is_only_named(tmp_path):
    items = [("w", of_storage().replace(b"ctorch\nFloatStorage\n", text("QuantizedStorage")))]
    refused(write(tmp_path, items, {"5": STORAGE}), "its pickle asks for an unknown object .*Quantized")


@pytest.mark.parametrize("kept", range(1, 40))
def test_a_truncated_file(tmp_path, kept):
    path = tmp_path / "net.pth"
    torch_files.save_legacy(path, VALUES)
    content = path.read_bytes()
    path.write_bytes(content[: len(torch_files.LEGACY_START) + (len(content) - 15) * kept // 40])
    refused(path, "damaged or cut short|is larger than the file, or cut short")


def test_one_byte_less_or_more(tmp_path):
    path = tmp_path / "net.pth"
    torch_files.save_legacy(path, VALUES)
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    refused(path, r"complete PyTorch file.*cut short: storage \d+ ends after \d+ of \d+ bytes")
    path.write_bytes(content + b"\0")
    refused(path, "has extra bytes after its last storage")


def test_another_magic_number(tmp_path):
    for start in (b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x18.", b"", b"\x80\x02K\x01."):
        path = write(tmp_path, [("w", of_storage())], {"5": STORAGE}, start=start)
        refused(path, "must be a file written by torch.save")


def test_another_protocol_or_order_of_bytes(tmp_path):
    refused(write(tmp_path, [], {}, protocol_version=1002), "its protocol is 1002 instead of 1001")
    for flag in (b"\x89", b"N", number(1)):
        refused(write(tmp_path, [], {}, little_endian=flag), "another system than a little-endian one")


@pytest.mark.parametrize(
    ("sizes", "strides", "offset", "whole"),
    [((13,), (1,), 0, NOT_A_VIEW), ((3, 4), (4, 1), 1, NOT_A_VIEW), ((10**9, 10**9), (0, 0), 0, NOT_A_VIEW),
     ((2,), (-1,), 5, NOT_A_VIEW), ((2,), (1,), -3, NOT_A_VIEW), ((2, 2), (1,), 0, NOT_A_VIEW),
     ((3,), (1,), 0, view(4, 2)), ((2,), (1,), 1, view(4, 2)), ((1,), (1,), 0, view(11, 2)),
     ((1,), (1,), 0, view(-1, 2)), ((1,), (1,), 0, view(5, -1))],
)  # fmt: skip
def test_a_tensor_beyond_its_storage(tmp_path, sizes, strides, offset, whole):
    items = [("w", of_storage(sizes, strides, offset, view=whole))]
    refused(write(tmp_path, items, {"5": STORAGE}), "beyond its storage 5|has sizes .* and strides")


def test_a_storage_that_is_not_what_the_state_dict_says(tmp_path):
    items = [("w", of_storage())]
    refused(write(tmp_path, items, {}), "its list of storages does not match its tensors")
    refused(write(tmp_path, items, {"6": STORAGE}), "its list of storages does not match its tensors")
    refused(write(tmp_path, items, {"5": STORAGE, "6": STORAGE}), "its list of storages does not match")
    refused(write(tmp_path, items, {"5": STORAGE}, counts=11), "storage 5 has 11 numbers instead of 12")
    refused(write(tmp_path, items, {"5": STORAGE}, counts=-1), "storage 5 has -1 numbers instead of 12")


@pytest.mark.parametrize("count", [2**31 - 1, -1])
def test_no_more_memory_than_the_file_has_bytes(tmp_path, count):
    items = [("w", of_storage(count=count))]
    refused(write(tmp_path, items, {"5": STORAGE}), f"storage 5 of {count} numbers is larger than the file")


def test_a_checkpoint_of_a_whole_run(tmp_path):
    path = tmp_path / "net.pth"
    path.write_bytes(torch_files.legacy(pickle.dumps({"epoch": 3}, 2), {}))
    refused(path, "'epoch' is a int. Save model.state_dict")


@given(data=st.data())
def test_damaged_files_never_raise_anything_else(tmp_path_factory, data):
    items = [("w", of_storage(view=view(2, 6), sizes=(2,), strides=(1,))), ("v", of_storage())]
    content = bytearray(torch_files.legacy(torch_files.state_dict(items), {"5": STORAGE}))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / "net.pth"
    path.write_bytes(bytes(content))
    with contextlib.suppress(ValueError):
        read_tensors(path)
