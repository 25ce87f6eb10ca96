"""Decodes image files by TensorFlow operations alone, in a tf.data pipeline and in an exported SavedModel.

Also tells which files these operations decode correctly; ``decoding`` reads all others by Pillow.

Shapes: images are uint8 [H, W, 3], RGB; H, W the height and width in pixels.
"""

from typing import TypeVar

import numpy as np
import tensorflow as tf

# Decoding takes up to 40 bytes per pixel (PNG with transparency): 2.7 GB for each file decoded in parallel.
MAX_PIXELS = 8192 * 8192

# AutoGraph would take a second to find no Python control flow that depends on tensors.
_as_it_is = tf.autograph.experimental.do_not_convert
_Pixels = TypeVar("_Pixels", np.ndarray, tf.Tensor)
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# Offsets in the file.
_PNG_SIZE = 16
_PNG_BIT_DEPTH = 24
# Where a JPEG file may state its orientation: Exif comes first in the file and is at most this long.
_JPEG_HEADER_BYTES = 65536
# The Exif entry of an orientation other than 1, a short or long integer in either byte order, or that of XMP.
# `\C` is any byte. A match elsewhere in the file does no harm: Pillow decodes it as well.
_JPEG_ORIENTATION = (
    r"\C*(?:\x12\x01[\x03\x04]\x00\x01\x00\x00\x00[\x02-\x08]\x00"
    r"|\x01\x12\x00\x03\x00\x00\x00\x01\x00[\x02-\x08]"
    r"|\x01\x12\x00\x04\x00\x00\x00\x01\x00\x00\x00[\x02-\x08]"
    r"|tiff:Orientation(?:=\"|>)[2-8])\C*"
)
# PNG chunks that may state the orientation: Exif, its older forms, and XMP, which may be compressed.
_PNG_ORIENTATION = r"\C*(?:eXIf|Raw profile type (?:exif|APP1)|XML:com\.adobe\.xmp)\C*"


@_as_it_is
def decode(encoded: tf.Tensor) -> tf.Tensor:
    """Decodes a file's bytes, string scalar, to uint8 [H, W, 3].

    JPEG: RGB, grayscale and Adobe's inverted CMYK; the EXIF orientation is ignored. PNG with 8 or 16 bits per
    channel: composited on white, 16 bits scaled to 8. GIF: the first frame, transparent pixels as stored. BMP
    with 24 or 32 bits. Use ``decodes_correctly`` to find out where ``decoding`` gives another image.
    """
    image = tf.case(
        [
            # TensorFlow's default is a faster transform whose error is up to seven gray levels. Decoding at a
            # half or a quarter of the size, for images much larger than needed, has an error of up to four.
            (
                tf.io.is_jpeg(encoded),
                lambda: tf.io.decode_jpeg(encoded, channels=3, dct_method="INTEGER_ACCURATE"),
            ),
            (_is_png(encoded), lambda: _decode_png(encoded)),
        ],
        default=lambda: tf.io.decode_image(encoded, channels=3, expand_animations=False),
    )
    return tf.ensure_shape(image, [None, None, 3])


@_as_it_is
def decodes_correctly(encoded: tf.Tensor) -> tf.Tensor:
    """Returns whether `decode` gives the correct image of a file's bytes, bool scalar.

    Looks at the header: true for JPEG of one or three components and for PNG of 8 or 16 bits, if they have no
    EXIF orientation and at most MAX_PIXELS.

    Raises:
        tf.errors.InvalidArgumentError: If the header is corrupt.
    """
    return tf.case(
        [
            (tf.io.is_jpeg(encoded), lambda: _is_plain_jpeg(encoded)),
            (_is_png(encoded), lambda: _is_plain_png(encoded)),
        ],
        default=lambda: tf.constant(False),
    )


def eight_bits(deep: _Pixels) -> _Pixels:
    """Scales values of 0 to 65535 to 0 to 255, rounded; int32 of any shape, NumPy or TensorFlow."""
    return (deep * 255 + 32767) // 65535


def on_white(image: _Pixels) -> _Pixels:
    """Composites an RGBA image on white: int32 [H, W, 4] to [H, W, 3]; NumPy or TensorFlow."""
    color, alpha = image[..., :3], image[..., 3:]
    return (color * alpha + 255 * (255 - alpha) + 127) // 255


def _is_plain_jpeg(encoded: tf.Tensor) -> tf.Tensor:
    height, width, components = tf.unstack(tf.io.extract_jpeg_shape(encoded, tf.int64))
    header = tf.strings.substr(encoded, 0, _JPEG_HEADER_BYTES)
    is_oriented = tf.strings.regex_full_match(header, _JPEG_ORIENTATION)
    return ((components == 1) | (components == 3)) & (height * width <= MAX_PIXELS) & ~is_oriented


def _is_plain_png(encoded: tf.Tensor) -> tf.Tensor:
    # TensorFlow does not scale fewer bits to the range of eight.
    bits = _png_bit_depth(encoded)
    size = tf.io.decode_raw(tf.strings.substr(encoded, _PNG_SIZE, 8), tf.int32, little_endian=False)
    num_pixels = tf.reduce_prod(tf.cast(size, tf.int64))
    is_oriented = tf.strings.regex_full_match(encoded, _PNG_ORIENTATION)
    return ((bits == 8) | (bits == 16)) & (num_pixels <= MAX_PIXELS) & ~is_oriented


def _is_png(encoded: tf.Tensor) -> tf.Tensor:
    """Returns whether a file's bytes start as a PNG file and include its bit depth, bool scalar."""
    starts = tf.equal(tf.strings.substr(encoded, 0, len(_PNG_SIGNATURE)), _PNG_SIGNATURE)
    return starts & (tf.strings.length(encoded) > _PNG_BIT_DEPTH)


def _png_bit_depth(encoded: tf.Tensor) -> tf.Tensor:
    """Returns the bits per channel of a PNG file's bytes, uint8 scalar."""
    return tf.io.decode_raw(tf.strings.substr(encoded, _PNG_BIT_DEPTH, 1), tf.uint8)[0]


def _decode_png(encoded: tf.Tensor) -> tf.Tensor:
    image = tf.cond(
        tf.equal(_png_bit_depth(encoded), 16),
        lambda: tf.cast(
            eight_bits(tf.cast(tf.io.decode_png(encoded, channels=4, dtype=tf.uint16), tf.int32)), tf.uint8
        ),
        lambda: tf.io.decode_png(encoded, channels=4),
    )
    return tf.cond(
        tf.reduce_all(tf.equal(image[..., 3], 255)),
        lambda: image[..., :3],
        lambda: tf.cast(on_white(tf.cast(image, tf.int32)), tf.uint8),
    )
