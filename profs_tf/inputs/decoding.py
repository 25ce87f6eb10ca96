"""From a picture file, as it is found, to RGB: by TensorFlow where that is right, else by Pillow.

Plain JPEG and PNG files are decoded inside tf.data. What TensorFlow's decoders cannot read or would show
wrongly (CMYK, pictures turned by their Exif tag, GIF, BMP, whatever else Pillow knows) goes through Pillow.
Transparent pictures are laid on white.

Shapes: H, W a file's height and width in pixels, after turning.
"""

import contextlib
import io
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Union

import numpy as np
import tensorflow as tf
from PIL import Image, ImageOps, UnidentifiedImageError

from profs_tf.inputs.preprocessing import decode, eight_bits, is_png, on_white, png_bit_depth

# Where a JPEG file may tell how it is turned: Exif comes first in the file and is at most this long.
_HEADER_BYTES = 65536
# The entry of Exif for an orientation other than 1, a short or long integer in either byte order, or that of
# XMP. `\C` is any byte. A match elsewhere in the file does no harm: Pillow decodes it as well.
_TURNED = (
    r"\C*(?:\x12\x01[\x03\x04]\x00\x01\x00\x00\x00[\x02-\x08]\x00"
    r"|\x01\x12\x00\x03\x00\x00\x00\x01\x00[\x02-\x08]"
    r"|\x01\x12\x00\x04\x00\x00\x00\x01\x00\x00\x00[\x02-\x08]"
    r"|tiff:Orientation(?:=\"|>)[2-8])\C*"
)
# Chunks of PNG that may tell the same: Exif, its older forms, and XMP, which may be compressed.
_PNG_METADATA = r"\C*(?:eXIf|Raw profile type (?:exif|APP1)|XML:com\.adobe\.xmp)\C*"
_RULE = "`path` must be a readable picture, got "
_CURE = "Repair or remove the file; `python -m profs_tf.check_data` lists all such files."
_DEEP_MODES = ("I", "I;16", "I;16B", "I;16L", "I;16N")
_TRANSPARENT_MODES = ("RGBA", "RGBa", "LA", "La", "PA")

Picture = Union[str, os.PathLike, np.ndarray]
"""A picture file's path, or the picture, uint8 `[H, W, 3]`."""


class UnreadableImageError(ValueError):
    """A picture file cannot be read; the message names it and says why.

    Attributes:
        summary: file and reason, without the advice.
    """

    def __init__(self, summary: str) -> None:
        """Makes the error of "FILE: REASON"."""
        self.summary = summary
        super().__init__(f"{_RULE}{summary}. {_CURE}")


def image_dataset(path: tf.Tensor) -> tf.data.Dataset:
    """Returns the data set of one element that is a file's picture, uint8 [H, W, 3]; path: string scalar.

    Made to be the function of `Dataset.interleave`. Where TensorFlow fails, Pillow decides; so an error that
    a consumer sees is `UnreadableImageError` with the path, inside a `tf.errors.OpError`. Nothing here is
    stateful for TensorFlow, so files are decoded in parallel also when operations must be deterministic.
    """
    once = tf.data.Dataset.range(1)
    by_tensorflow = once.map(lambda _: tf.io.read_file(path)).filter(decodes_faithfully).map(decode)
    by_pillow = once.map(lambda _: _read_by_pillow_in_graph(path))
    return by_tensorflow.ignore_errors().concatenate(by_pillow).take(1)


def decodes_faithfully(encoded: tf.Tensor) -> tf.Tensor:
    """Returns whether `images.decode` gives the right picture of a file's bytes, bool scalar.

    Looks at the header: true for JPEG with one or three components that is not turned, and for PNG of 8 or 16
    bits without metadata that could turn it.

    Raises:
        tf.errors.InvalidArgumentError: if the header is broken.
    """
    return tf.case(
        [
            (tf.io.is_jpeg(encoded), lambda: _is_plain_jpeg(encoded)),
            (is_png(encoded), lambda: _is_plain_png(encoded)),
        ],
        default=lambda: tf.constant(False),
    )


def _is_plain_jpeg(encoded: tf.Tensor) -> tf.Tensor:
    components = tf.io.extract_jpeg_shape(encoded)[2]
    turned = tf.strings.regex_full_match(tf.strings.substr(encoded, 0, _HEADER_BYTES), _TURNED)
    return ((components == 1) | (components == 3)) & ~turned


def _is_plain_png(encoded: tf.Tensor) -> tf.Tensor:
    # Fewer bits are not spread over the range of eight.
    bits = png_bit_depth(encoded)
    return ((bits == 8) | (bits == 16)) & ~tf.strings.regex_full_match(encoded, _PNG_METADATA)


def _read_by_pillow_in_graph(path: tf.Tensor) -> tf.Tensor:
    image = tf.numpy_function(lambda name: read_by_pillow(name.decode()), [path], tf.uint8, stateful=False)
    return tf.ensure_shape(image, [None, None, 3])


def read_image(path: Union[str, os.PathLike]) -> np.ndarray:
    """Returns a file's picture, uint8 [H, W, 3], the same as `image_dataset` gives.

    Raises:
        UnreadableImageError: if it cannot be read.
    """
    with contextlib.suppress(tf.errors.InvalidArgumentError):
        encoded = _read_bytes(path)
        if decodes_faithfully(encoded):
            return decode(encoded).numpy()
    return read_by_pillow(path)


def read_by_pillow(path: Union[str, os.PathLike]) -> np.ndarray:
    """Returns a file's picture, uint8 [H, W, 3], as Pillow decodes it: turned upright, on white.

    Sixteen bits of grey are scaled to eight.

    Raises:
        UnreadableImageError: if it cannot be read.
    """
    try:
        with Image.open(path) as file:
            return _to_rgb(ImageOps.exif_transpose(file))
    # Pillow lets through whatever its parsers raise: SyntaxError, struct.error, zlib.error and others.
    except Exception as error:
        raise _unreadable(path, error) from error


def read_encoded(path: Union[str, os.PathLike]) -> bytes:
    """Returns bytes that `images.decode` decodes to the file's picture: its own, or of a PNG made of it.

    A file with a sound header and broken contents is returned as it is: decoding it will fail.

    Raises:
        UnreadableImageError: if the file is missing, or its header cannot be read.
    """
    encoded = _read_bytes(path)
    with contextlib.suppress(tf.errors.InvalidArgumentError):
        if decodes_faithfully(encoded):
            return encoded
    return encode_anew(path)


def read_all_encoded(paths: Sequence[Union[str, os.PathLike]]) -> list[bytes]:
    """Returns what `read_encoded` gives for each file; many small ones take a tenth of the time together.

    Raises:
        UnreadableImageError: as `read_encoded`, for the first file that it is raised for.
    """
    encoded = [_read_bytes(path) for path in paths]
    try:
        faithful = _decode_faithfully(tf.constant(encoded, tf.string)).numpy()
    except tf.errors.InvalidArgumentError:
        return [read_encoded(path) for path in paths]
    return [data if right else encode_anew(path) for path, data, right in zip(paths, encoded, faithful)]


@tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
def _decode_faithfully(encoded: tf.Tensor) -> tf.Tensor:
    return tf.map_fn(decodes_faithfully, encoded, fn_output_signature=tf.bool)


def encode_anew(path: Union[str, os.PathLike]) -> bytes:
    """Returns the file's picture, read by Pillow, as a PNG file's bytes.

    Raises:
        UnreadableImageError: if it cannot be read.
    """
    buffer = io.BytesIO()
    Image.fromarray(read_by_pillow(path)).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


@contextlib.contextmanager
def unreadable_files_named() -> Iterator[None]:
    """Turns the TensorFlow error that an unreadable file has become inside a pipeline into its own again.

    Raises:
        UnreadableImageError: in place of a `tf.errors.OpError` that reports one.
    """
    try:
        yield
    except tf.errors.OpError as error:
        found = re.search(f"{re.escape(_RULE)}(.*)\\. {re.escape(_CURE)}", error.message)
        if not found:
            raise
        raise UnreadableImageError(found.group(1)) from error


def _read_bytes(path: Union[str, os.PathLike]) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Union[str, os.PathLike], error: Exception) -> UnreadableImageError:
    if isinstance(error, UnidentifiedImageError):
        reason = "it is in no known format" if os.path.getsize(path) else "it is empty"
    elif isinstance(error, OSError) and error.strerror:
        reason = error.strerror
    else:
        reason = f"{error or type(error).__name__}"
    return UnreadableImageError(f"{path}: {' '.join(reason.split())}")


def _to_rgb(image: Image.Image) -> np.ndarray:
    if image.mode in _DEEP_MODES:
        # Pillow's own conversion clips at 255.
        grey = eight_bits(np.asarray(image).astype(np.int32))
        if grey.min() < 0 or grey.max() > 255:
            raise ValueError("it has more than 16 bits a pixel")
        return np.repeat(grey.astype(np.uint8)[..., None], 3, axis=-1)
    if image.mode in _TRANSPARENT_MODES or "transparency" in image.info:
        return on_white(np.asarray(image.convert("RGBA")).astype(np.int32)).astype(np.uint8)
    return np.asarray(image.convert("RGB"))
