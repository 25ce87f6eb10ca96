"""Reads image files as RGB: by TensorFlow where that gives the correct image, otherwise by Pillow.

Plain JPEG and PNG files are decoded inside tf.data. Pillow reads what TensorFlow's decoders cannot read or
would get wrong: CMYK, images with an EXIF orientation, GIF, BMP and its other formats. Transparent images are
composited on white. Images of more than ``tf_decoding.MAX_PIXELS`` are refused, whatever their encoding.

Shapes: images are uint8 [H, W, 3]; H, W the height and width in pixels, EXIF orientation applied.
"""

import contextlib
import io
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Optional, Union

import numpy as np
import tensorflow as tf
from PIL import Image, ImageOps, UnidentifiedImageError

from profs_tf.inputs.tf_decoding import MAX_PIXELS, decode, decodes_correctly, eight_bits, on_white

_RULE = "Image files must be readable, got "
_CURE = "Replace or remove the file; `python -m profs_tf.check_data` lists all such files of a data set."
_TOO_LARGE = f"it has more than {MAX_PIXELS:,} pixels, scale it down"
_DEEP_MODES = ("I", "I;16", "I;16B", "I;16L", "I;16N")
_TRANSPARENT_MODES = ("RGBA", "RGBa", "LA", "La", "PA")

ImageOrPath = Union[str, os.PathLike, np.ndarray]
"""The path of an image file, or the image, uint8 `[H, W, 3]`."""

FileOrBytes = Union[str, os.PathLike, bytes]
"""The path of an image file, or the bytes of one."""


class UnreadableImageError(ValueError):
    """An image file cannot be read; the message names it and the reason.

    Attributes:
        summary: File and reason, without the advice.
    """

    def __init__(self, summary: str, argument: Optional[str] = None) -> None:
        """Makes the error of "FILE: REASON"; `argument` is the argument that names the file."""
        self.summary = summary
        rule = f"`{argument}` must name image files that can be read, got " if argument else _RULE
        super().__init__(f"{rule}{summary}. {'Correct the path.' if argument else _CURE}")

    def __reduce__(self) -> tuple:
        """Passes from process to process by its summary, which alone the constructor takes."""
        return type(self), (self.summary,)


def image_dataset(path: tf.Tensor) -> tf.data.Dataset:
    """Returns the dataset of one element, the image of a file, uint8 [H, W, 3]; path: string scalar.

    Meant as the function of `Dataset.interleave`. Where TensorFlow fails, Pillow decides, so the error that a
    consumer sees is `UnreadableImageError` inside a `tf.errors.OpError`. No operation is stateful, so files
    are decoded in parallel even if operations must be deterministic.
    """
    once = tf.data.Dataset.range(1)
    by_tensorflow = once.map(lambda _: tf.io.read_file(path)).filter(decodes_correctly).map(decode)
    by_pillow = once.map(lambda _: _read_by_pillow_in_graph(path))
    return by_tensorflow.ignore_errors().concatenate(by_pillow).take(1)


def _read_by_pillow_in_graph(path: tf.Tensor) -> tf.Tensor:
    image = tf.numpy_function(lambda name: read_by_pillow(name.decode()), [path], tf.uint8, stateful=False)
    return tf.ensure_shape(image, [None, None, 3])


def read_image(path: FileOrBytes) -> np.ndarray:
    """Returns the image of a file or of its bytes, uint8 [H, W, 3], equal to that of `image_dataset`.

    Raises:
        UnreadableImageError: If it cannot be read.
    """
    contents = _read_bytes(path)
    with contextlib.suppress(tf.errors.InvalidArgumentError):
        # As a tensor: every operation would copy a large file's bytes again.
        encoded = tf.constant(contents)
        if decodes_correctly(encoded):
            return decode(encoded).numpy()
    return read_by_pillow(path, contents)


def reading_problem(path: Union[str, os.PathLike]) -> Optional[str]:
    """Returns why `read_image` fails for a file, "FILE: REASON", or None if it succeeds."""
    try:
        read_image(path)
    except UnreadableImageError as error:
        return error.summary
    return None


def read_by_pillow(path: FileOrBytes, contents: Optional[bytes] = None) -> np.ndarray:
    """Returns the image of a file as Pillow decodes it, uint8 [H, W, 3]: upright, composited on white.

    Gray images of 16 bits are scaled to eight.

    Args:
        path: Of the file, which messages name.
        contents: Its bytes; None: they are read.

    Raises:
        UnreadableImageError: If it cannot be read.
    """
    contents = _read_bytes(path) if contents is None else contents
    try:
        with Image.open(io.BytesIO(contents)) as file:
            return _upright(file)
    # Pillow passes on whatever its parsers raise: SyntaxError, struct.error, zlib.error and others.
    except Exception as error:
        raise _unreadable(path, error, is_empty=not contents) from error


def convert_pillow(image: Image.Image) -> np.ndarray:
    """Returns an image of Pillow as `read_by_pillow` returns that of a file, uint8 [H, W, 3].

    Raises:
        UnreadableImageError: If it is opened from a file whose contents cannot be read.
    """
    try:
        return _upright(image)
    except Exception as error:
        raise _unreadable(getattr(image, "filename", "") or "an image of Pillow", error) from error


def _upright(image: Image.Image) -> np.ndarray:
    if image.width * image.height > MAX_PIXELS:
        raise Image.DecompressionBombError
    return _to_rgb(ImageOps.exif_transpose(image))


def read_encoded(path: FileOrBytes, contents: Optional[bytes] = None) -> bytes:
    """Returns bytes that `tf_decoding.decode` decodes to the file's image: its own, or a PNG file's.

    A file with a valid header and corrupt contents is returned as it is: decoding it fails.

    Args:
        path: Of the file, which messages name.
        contents: Its bytes; None: they are read.

    Raises:
        UnreadableImageError: If the file is missing, or its header cannot be read.
    """
    contents = _read_bytes(path) if contents is None else contents
    with contextlib.suppress(tf.errors.InvalidArgumentError):
        if decodes_correctly(contents):
            return contents
    return reencode_as_png(path, contents)


def read_all_encoded(paths: Sequence[FileOrBytes], contents: Optional[Sequence[bytes]] = None) -> list[bytes]:
    """Returns `read_encoded` of each file; for many small files ten times as fast.

    Args:
        paths: Of the files.
        contents: What `read_contents` returned for them; None: they are read.

    Raises:
        UnreadableImageError: For the first file that `read_encoded` raises it for.
    """
    contents = read_contents(paths) if contents is None else contents
    try:
        correct = _all_decode_correctly(tf.constant(contents, tf.string)).numpy()
    except tf.errors.InvalidArgumentError:
        return [read_encoded(path, data) for path, data in zip(paths, contents)]
    return [
        data if plain else reencode_as_png(path, data) for path, data, plain in zip(paths, contents, correct)
    ]


def read_contents(paths: Sequence[FileOrBytes]) -> list[bytes]:
    """Returns the bytes of each file; raises UnreadableImageError for the first that cannot be opened."""
    return [_read_bytes(path) for path in paths]


@tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
def _all_decode_correctly(encoded: tf.Tensor) -> tf.Tensor:
    return tf.map_fn(decodes_correctly, encoded, fn_output_signature=tf.bool)


def reencode_as_png(path: FileOrBytes, contents: Optional[bytes] = None) -> bytes:
    """Returns the file's image, read by Pillow, as the bytes of a PNG file; see `read_by_pillow`.

    Raises:
        UnreadableImageError: If it cannot be read.
    """
    buffer = io.BytesIO()
    Image.fromarray(read_by_pillow(path, contents)).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


@contextlib.contextmanager
def naming_unreadable_files() -> Iterator[None]:
    """Converts the TensorFlow error of an unreadable file in a pipeline back to UnreadableImageError.

    Raises:
        UnreadableImageError: Instead of a `tf.errors.OpError` that reports one.
    """
    try:
        yield
    except tf.errors.OpError as error:
        found = re.search(f"{re.escape(_RULE)}(.*?)\\. {re.escape(_CURE)}", error.message, re.DOTALL)
        if not found:
            raise
        raise UnreadableImageError(found.group(1)) from error


def _read_bytes(path: FileOrBytes) -> bytes:
    try:
        return path if isinstance(path, bytes) else Path(path).read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: FileOrBytes, error: Exception, is_empty: bool = False) -> UnreadableImageError:
    if isinstance(error, (Image.DecompressionBombError, Image.DecompressionBombWarning)):
        reason = _TOO_LARGE
    elif isinstance(error, UnidentifiedImageError):
        reason = "it is empty" if is_empty else "it is in no known format"
    elif isinstance(error, OSError) and error.strerror:
        reason = error.strerror
    else:
        reason = f"{error or type(error).__name__}"
    name = f"{len(path):,} bytes" if isinstance(path, bytes) else path
    return UnreadableImageError(f"{name}: {' '.join(reason.split())}")


def _to_rgb(image: Image.Image) -> np.ndarray:
    if image.mode in _DEEP_MODES:
        # Pillow's own conversion clips at 255.
        gray = eight_bits(np.asarray(image).astype(np.int32))
        if gray.min() < 0 or gray.max() > 255:
            raise ValueError("it has more than 16 bits per pixel")
        return np.repeat(gray.astype(np.uint8)[..., None], 3, axis=-1)
    if image.mode in _TRANSPARENT_MODES or "transparency" in image.info:
        return on_white(np.asarray(image.convert("RGBA")).astype(np.int32)).astype(np.uint8)
    return np.asarray(image.convert("RGB"))
