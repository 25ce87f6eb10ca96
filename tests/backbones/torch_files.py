"""Writes PyTorch's zip format opcode by opcode, as ``torch.save`` lays it out, without PyTorch."""

import pickle
import struct
import zipfile

import numpy as np

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


def tensor(key, array, sizes=None, strides=None, offset=0, count=None):
    """The opcodes of ``torch._utils._rebuild_tensor_v2(storage, offset, sizes, strides, False, hooks)``."""
    sizes = array.shape if sizes is None else sizes
    strides = [step // array.itemsize for step in array.strides] if strides is None else strides
    storage = f"ctorch\n{STORAGES[str(array.dtype)]}\n".encode()
    count = array.size if count is None else count
    identity = b"(" + text("storage") + storage + text(str(key)) + text("cpu") + number(count) + TUPLE + b"Q"
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


def save_old(path):
    """The start of a file by PyTorch before 1.6: magic number, protocol version, system."""
    with open(path, "wb") as file:
        for part in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}):
            pickle.dump(part, file, protocol=2)
    return str(path)
