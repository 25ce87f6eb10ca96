"""Writes PyTorch's two formats opcode by opcode, as ``torch.save`` lays them out, without PyTorch.

With what the tests of both need besides.
"""

import re
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from profs_tf.backbones.weights.pytorch.state_dict import read_tensors

STORAGES = {"float64": "DoubleStorage", "float32": "FloatStorage", "int64": "LongStorage"}
ORDERED_DICT = b"ccollections\nOrderedDict\n)R"
TUPLE = b"t"


def text(value):
    encoded = value.encode()
    return b"X" + struct.pack("<I", len(encoded)) + encoded


def number(value):
    return b"J" + struct.pack("<i", value)


def numbers(values):
    return b"(" + b"".join(map(number, values)) + TUPLE


def tensor(key, array, sizes=None, strides=None, offset=0, count=None, view=b""):
    """The opcodes of ``torch._utils._rebuild_tensor_v2(storage, offset, sizes, strides, False, hooks)``.

    ``view`` is one more element in the identity of the storage, which the format before 1.6 has.
    """
    sizes = array.shape if sizes is None else sizes
    strides = [step // array.itemsize for step in array.strides] if strides is None else strides
    storage = f"ctorch\n{STORAGES[str(array.dtype)]}\n".encode()
    count = array.size if count is None else count
    identity = b"(" + text("storage") + storage + text(str(key)) + text("cpu") + number(count) + view
    identity += TUPLE + b"Q"
    arguments = identity + number(offset) + numbers(sizes) + numbers(strides) + b"\x89" + ORDERED_DICT
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + arguments + TUPLE + b"R"


def state_dict(items, metadata=True):
    """The pickle of an ordered dictionary, from names and the opcodes of their values."""
    body = b"".join(text(name) + value for name, value in items)
    end = b"}" + text("_metadata") + ORDERED_DICT + b"sb" if metadata else b""
    return b"\x80\x02" + ORDERED_DICT + b"(" + body + b"u" + end + b"."


def write(path, content, storages, *, root="archive", compression=zipfile.ZIP_STORED, byteorder="little"):
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr(f"{root}/data.pkl", content)
        archive.writestr(f"{root}/byteorder", byteorder)
        for key, array in enumerate(storages):
            archive.writestr(f"{root}/data/{key}", array.tobytes())
        archive.writestr(f"{root}/version", "3\n")
    return str(path)


def save(path, values, **options):
    """Writes arrays by name as a state dict, each in a storage of its own."""
    arrays = [np.array(value, order="C") for value in values.values()]
    items = [(name, tensor(key, array)) for key, (name, array) in enumerate(zip(values, arrays))]
    return write(path, state_dict(items), arrays, **options)


NOT_A_VIEW = b"N"
LEGACY_START = bytes.fromhex("80028a0a6cfc9c46f9206aa850192e")


def legacy(
    content, storages, *, start=LEGACY_START, protocol_version=1001, little_endian=b"\x88", counts=None
):
    """The bytes of a file in the format before 1.6; ``storages`` are arrays by key, in their order."""
    sizes = b"(" + text("short") + number(2) + text("int") + number(4) + text("long") + number(4) + b"d"
    system = b"(" + text("protocol_version") + number(1001) + text("little_endian") + little_endian
    parts = [
        start,
        b"\x80\x02" + number(protocol_version) + b".",
        b"\x80\x02" + system + text("type_sizes") + sizes + b"d.",
        content,
        b"\x80\x02](" + b"".join(map(text, storages)) + b"e.",
    ]
    for array in storages.values():
        parts += [struct.pack("<q", array.size if counts is None else counts), array.tobytes()]
    return b"".join(parts)


def save_legacy(path, values):
    """Writes arrays by name as a state dict in the format before 1.6, each in a storage of its own."""
    # Keys were addresses, and the storages came in the order of their texts.
    keys = [str(94_000_000_000_000 - 64 * number) for number in range(len(values))]
    arrays = {key: np.array(value, order="C") for key, value in zip(keys, values.values())}
    items = [(name, tensor(key, arrays[key], view=NOT_A_VIEW)) for key, name in zip(keys, values)]
    content = legacy(state_dict(items), {key: arrays[key] for key in sorted(arrays)})
    Path(path).write_bytes(content)
    return str(path)


def draw(*shape, dtype=np.float32):
    return (np.random.default_rng(0).normal(size=shape) * 100).astype(dtype)


def refused(path, message):
    """Reading the file fails with ``message``, and says which file it is."""
    with pytest.raises(ValueError, match=message) as caught:
        read_tensors(path)
    assert re.match("`pretrained` must ", str(caught.value))
    assert str(path) in str(caught.value)


class Calls:
    """Pickles as a call of a function."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call
