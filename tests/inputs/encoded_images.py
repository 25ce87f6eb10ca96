"""Image files made by hand: PNG of any bit depth and color type, and headers that claim another size."""

import functools
import io
import struct
import zlib

import numpy as np
import tensorflow as tf
from PIL import Image

from profs_tf.inputs.decoding import image_dataset
from profs_tf.inputs.tf_decoding import decodes_correctly

RANDOM = np.random.default_rng(0)
# Smooth like photographs, since JPEG stores chroma at half the size.
COLORS = np.asarray(
    Image.fromarray(RANDOM.integers(0, 256, (5, 7, 3), np.uint8)).resize((40, 28), Image.BICUBIC)
)


def png(values, depth, kind, palette=None):
    """Encodes a PNG file by hand: values [H, W, channels] of `depth` bits; kind is PNG's color type."""
    height, width, _ = values.shape
    if depth == 16:
        rows = values.astype(">u2").tobytes()
    else:
        bits = (values.reshape(height, -1, 1) >> np.arange(depth - 1, -1, -1)) & 1
        rows = np.packbits(bits.reshape(height, -1).astype(np.uint8), axis=1).tobytes()
    stride = len(rows) // height
    data = b"".join(b"\0" + rows[row * stride : (row + 1) * stride] for row in range(height))
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0))]
    if kind == 3:
        chunks.append((b"PLTE", palette.tobytes()))
    chunks += [(b"IDAT", zlib.compress(data)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in chunks
    )


def claiming_size(mode, kind, side):
    """Encodes a small image and replaces the width and height in its header by `side`."""
    buffer = io.BytesIO()
    image = Image.effect_noise((40, 28), 50)
    if mode == "I;16":
        image = Image.fromarray(np.asarray(image).astype(np.uint16) * 257)
    elif mode == "RGBA":
        image = image.convert("RGB")
        image.putalpha(90)
    else:
        image = image.convert(mode)
    image.save(buffer, kind)
    encoded = bytearray(buffer.getvalue())
    # Where the header holds the size, its struct format, and whether the height comes first.
    at, form = {
        "JPEG": (encoded.find(b"\xff\xc0") + 5, ">HH"),
        "PNG": (16, ">II"),
        "GIF": (6, "<HH"),
        "BMP": (18, "<ii"),
    }[kind]
    assert sorted(struct.unpack_from(form, encoded, at)) == [28, 40]
    struct.pack_into(form, encoded, at, side, side)
    if kind == "PNG":
        struct.pack_into(">I", encoded, 29, zlib.crc32(encoded[12:29]))
    return bytes(encoded)


@functools.cache
def _dataset():
    """A dataset and the variable with the path that it reads: built once, since that takes longest."""
    path = tf.Variable("")
    return image_dataset(path), path


def images_at(path):
    dataset, variable = _dataset()
    variable.assign(str(path))
    return dataset.as_numpy_iterator()


def is_decoded_by_tensorflow(path):
    return bool(decodes_correctly(path.read_bytes()))
