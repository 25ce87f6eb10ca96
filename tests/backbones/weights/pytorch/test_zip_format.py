"""Tensors of PyTorch files, and what such files must not do."""

import contextlib
import pickle
import re
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profs_tf.backbones.weights.pytorch.state_dict import read_tensors
from tests.backbones import torch_files
from tests.backbones.torch_files import draw, refused

VALUES = {
    "conv.weight": draw(4, 3, 5, 5),
    "conv.bias": draw(4),
    "bn.num_batches_tracked": np.array(7, np.int64),
    "double": draw(2, 3, dtype=np.float64),
}


@pytest.mark.parametrize("root", ["archive", "bn_inception-52deb4733"])
def test_every_tensor_comes_back(tmp_path, root):
    got = read_tensors(torch_files.save(tmp_path / "net.pth", VALUES, root=root))
    assert list(got) == list(VALUES)
    for name, value in VALUES.items():
        np.testing.assert_array_equal(got[name], value)
        assert got[name].dtype == value.dtype
        assert got[name].shape == value.shape


def test_big_endian(tmp_path):
    value = draw(3, 4)
    items = [("w", torch_files.tensor(0, value))]
    path = tmp_path / "net.pth"
    torch_files.write(path, torch_files.state_dict(items), [value.astype(">f4")], byteorder="big")
    np.testing.assert_array_equal(read_tensors(path)["w"], value)


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file(tmp_path, kept):
    path = tmp_path / "net.pth"
    torch_files.save(path, VALUES)
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content))])
    refused(path, "must be a complete PyTorch file.*damaged or cut short")


def test_a_flipped_bit(tmp_path):
    path = tmp_path / "net.pth"
    torch_files.save(path, VALUES)
    content = bytearray(path.read_bytes())
    at = content.index(VALUES["conv.weight"].tobytes()) + 40
    content[at] ^= 1
    path.write_bytes(content)
    refused(path, "must be a complete PyTorch file")


def rewrite(path, change):
    """Copies an archive with ``change(name, content)`` in the place of each member; None leaves it out."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            if change(name, content) is not None:
                archive.writestr(name, change(name, content))
    return path


def test_a_storage_that_is_missing_or_short(tmp_path):
    path = torch_files.save(tmp_path / "net.pth", VALUES)
    rewrite(path, lambda name, content: content[:-4] if name.endswith("data/0") else content)
    refused(path, "storage 0 has 1196 bytes instead of 1200")
    rewrite(path, lambda name, content: None if name.endswith("data/0") else content)
    refused(path, "the archive lacks archive/data/0")
    rewrite(path, lambda name, content: None if name.endswith("data.pkl") else content)
    refused(path, "holds 0 members NAME/data.pkl instead of one")


def patch(path, signature, offset, change):
    """Sets bytes at an offset of each header of the zip file."""
    content = bytearray(path.read_bytes())
    for match in re.finditer(re.escape(signature), bytes(content)):
        content[match.start() + offset : match.start() + offset + len(change)] = change
    path.write_bytes(content)


def test_members_that_are_larger_than_the_file_are_refused_before_they_are_read(tmp_path):
    """A gigabyte of stored bytes was allocated for a file of a thousand."""
    path = tmp_path / "net.pth"
    for offset in (20, 24):
        torch_files.save(path, VALUES)
        patch(path, b"PK\x01\x02", offset, (2**30).to_bytes(4, "little"))
        refused(path, "its members take more bytes than the file has")


def test_an_encrypted_member(tmp_path):
    path = tmp_path / "net.pth"
    torch_files.save(path, VALUES)
    patch(path, b"PK\x01\x02", 8, b"\1")
    patch(path, b"PK\x03\x04", 6, b"\1")
    refused(path, "must be a complete PyTorch file, .*is encrypted")


def test_a_compressed_archive(tmp_path):
    path = torch_files.save(tmp_path / "net.pth", VALUES, compression=zipfile.ZIP_DEFLATED)
    refused(path, "is compressed, which torch.save never does")


@pytest.mark.parametrize(
    ("sizes", "strides", "offset"),
    [((13,), (1,), 0), ((4, 4), (4, 1), 0), ((3, 4), (4, 1), 1), ((2, 2), (11, 1), 0),
     ((10**9, 10**9), (0, 0), 0), ((13,), (0,), 0), ((2,), (-1,), 5), ((-1,), (1,), 0), ((2,), (1,), -3),
     ((2, 2), (1,), 0)],
)  # fmt: skip
def test_a_tensor_beyond_its_storage(tmp_path, sizes, strides, offset):
    storage = np.zeros(12, np.float32)
    items = [("w", torch_files.tensor(0, storage, sizes, strides, offset))]
    path = torch_files.write(tmp_path / "net.pth", torch_files.state_dict(items), [storage])
    refused(path, "reaches beyond its storage 0|has sizes .* and strides")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pickle.dumps([1, 2], 2), "which holds a list"),
        (pickle.dumps({"epoch": 3}, 2), "'epoch' is a int"),
        (pickle.dumps({"state_dict": {}}, 2), "'state_dict' is a dict"),
        (pickle.dumps({3: 4}, 2), "3 is a int"),
        (b"", "data.pkl is damaged"),
        (b"\x80\x02(", "data.pkl is damaged"),
        (b"\x80\x02" + torch_files.text("x") + b"Q.", "data.pkl is damaged"),
    ],
)
def test_what_is_no_state_dict(tmp_path, content, message):
    refused(torch_files.write(tmp_path / "net.pth", content, []), message)


@pytest.mark.parametrize("content", [b"", b"<html>404 Not Found</html>", bytes(1000)])
def test_a_file_of_another_kind(tmp_path, content):
    path = tmp_path / "net.pth"
    path.write_bytes(content)
    refused(path, "must be a file written by torch.save")


def test_no_such_file(tmp_path):
    refused(tmp_path / "nothing.pth", "must be the path of a PyTorch file")


@given(data=st.data())
def test_damaged_pickles_never_raise_anything_else(tmp_path_factory, data):
    content = bytearray(torch_files.state_dict([("w", torch_files.tensor(0, draw(4)))]))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / "net.pth"
    torch_files.write(path, bytes(content), [draw(4)])
    with contextlib.suppress(ValueError):
        read_tensors(path)
