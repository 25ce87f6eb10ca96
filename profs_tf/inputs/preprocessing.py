"""One image on its way into the embedder: decode, resize, crop, mirror.

Shapes: images are uint8 [H, W, 3], RGB, values 0 to 255, before and after; the embedder scales the values.

Crops and mirrors are `tf.image`'s stateless operations and not KerasCV's layers, which take eight times the
processor time for the same crop and mirror of a batch (``tools/benchmark_input.py``, last line), and whose
random numbers come from a running generator: a resumed run would not get the pictures that it would have had.
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import tensorflow as tf

from profs_tf.datasets.image_list import ImageList

_Pixels = TypeVar("_Pixels", np.ndarray, tf.Tensor)
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# Position in the file.
_PNG_BIT_DEPTH = 24


@dataclass(frozen=True)
class Preprocessing:
    """What happens to an image, in training and in evaluation.

    Training: scale to ``resize`` x ``resize``, pad each side by ``shift`` pixels (mirrored content), cut
    ``crop`` x ``crop`` at random, mirror left to right with probability one half. Evaluation: scale, cut the
    centre. Scaling does not keep the aspect, as in the paper (section 5.2: scaled to 256 x 256, 224 x 224
    random crop, horizontal mirroring).

    Attributes:
        resize: side in pixels after scaling; 0 leaves the image's size.
        crop: side in pixels of what the embedder gets.
        shift: pixels added on each side before the random crop; with ``crop == resize`` it is the largest
            shift of the picture.
        mirror: whether training mirrors.
    """

    resize: int = 256
    crop: int = 224
    shift: int = 0
    mirror: bool = True

    def __post_init__(self) -> None:
        if self.resize < 0:
            raise ValueError(f"`resize` must be >= 0 pixels, got {self.resize}.")
        if self.crop < 1:
            raise ValueError(f"`crop` must be >= 1 pixel, got {self.crop}.")
        if self.shift < 0:
            raise ValueError(f"`shift` must be >= 0 pixels, got {self.shift}.")
        if self.shift >= (self.resize or self.crop):
            # The border is the picture mirrored: it cannot be wider than the picture.
            raise ValueError(
                f"`shift` must be less than the picture's side of {self.resize or self.crop} pixels, "
                f"got {self.shift}."
            )
        if self.resize and self.crop > self.resize:
            raise ValueError(
                f"`crop` must be <= `resize` = {self.resize}, got {self.crop}. Raise `resize` with it."
            )


def preprocessing_for(image_list: ImageList) -> Preprocessing:
    """Returns the default for a data set: the paper's for files; for images in memory, their own size.

    Small pictures in memory are shifted by at most 1/12 of their side in place of being scaled and cropped.

    Raises:
        ValueError: if images in memory are not square.
    """
    if not isinstance(image_list.images, np.ndarray):
        return Preprocessing()
    height, width = image_list.images.shape[1:3]
    if height != width:
        raise ValueError(
            f"`images` must be square for the default preprocessing, got {height} x {width}. "
            "Pass `preprocessing=Preprocessing(resize=..., crop=...)`."
        )
    return Preprocessing(resize=height, crop=height, shift=height // 12)


def decode(encoded: tf.Tensor) -> tf.Tensor:
    """Decodes a file's bytes, string scalar, by TensorFlow's decoders alone, to uint8 [H, W, 3].

    JPEG: RGB, grayscale and Adobe's inverted CMYK; a turn that the Exif tag asks for is not made. PNG of 8 or
    16 bits a channel: transparency laid on white, 16 bits scaled to 8. GIF: the first frame, its transparent
    pixels as they are stored. BMP: with 24 or 32 bits. `image_files` reads these and others rightly, where
    Python is at hand.
    """
    image = tf.case(
        [
            # TensorFlow's default is a faster transform that is off by up to seven grey levels. Decoding at
            # half or a quarter of the size, for pictures much larger than wanted, is off by up to four.
            (
                tf.io.is_jpeg(encoded),
                lambda: tf.io.decode_jpeg(encoded, channels=3, dct_method="INTEGER_ACCURATE"),
            ),
            (is_png(encoded), lambda: _decode_png(encoded)),
        ],
        default=lambda: tf.io.decode_image(encoded, channels=3, expand_animations=False),
    )
    return tf.ensure_shape(image, [None, None, 3])


def is_png(encoded: tf.Tensor) -> tf.Tensor:
    """Returns whether a file's bytes begin as those of a PNG and reach to its bit depth, bool scalar."""
    begins = tf.equal(tf.strings.substr(encoded, 0, len(_PNG_SIGNATURE)), _PNG_SIGNATURE)
    return begins & (tf.strings.length(encoded) > _PNG_BIT_DEPTH)


def png_bit_depth(encoded: tf.Tensor) -> tf.Tensor:
    """Returns the bits a channel of a PNG file's bytes, uint8 scalar."""
    return tf.io.decode_raw(tf.strings.substr(encoded, _PNG_BIT_DEPTH, 1), tf.uint8)[0]


def _decode_png(encoded: tf.Tensor) -> tf.Tensor:
    image = tf.cond(
        tf.equal(png_bit_depth(encoded), 16),
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


def eight_bits(deep: _Pixels) -> _Pixels:
    """Scales values of 0 to 65535 to 0 to 255, rounded; int32 of any shape, NumPy or TensorFlow."""
    return (deep * 255 + 32767) // 65535


def on_white(image: _Pixels) -> _Pixels:
    """Lays an image on white: int32 [H, W, 4], the last its opacity, to [H, W, 3]; NumPy or TensorFlow."""
    colour, opacity = image[..., :3], image[..., 3:]
    return (colour * opacity + 255 * (255 - opacity) + 127) // 255


def crop_to_box(image: tf.Tensor, box: tf.Tensor) -> tf.Tensor:
    """Cuts a bounding box out of an image; what of the box lies outside is left out.

    Args:
        image: uint8 [H, W, 3].
        box: float [4]: x and y of the left upper corner, width and height, in pixels.

    Returns:
        uint8 [h, w, 3], at least one pixel.
    """
    limit = tf.cast(tf.shape(image)[1::-1], box.dtype)
    begin = tf.clip_by_value(tf.floor(box[:2]), 0.0, limit - 1.0)
    end = tf.clip_by_value(tf.math.ceil(box[:2] + box[2:]), begin + 1.0, limit)
    left, top = tf.unstack(tf.cast(begin, tf.int32))
    right, bottom = tf.unstack(tf.cast(end, tf.int32))
    return image[top:bottom, left:right]


def prepare_for_training(image: tf.Tensor, preprocessing: Preprocessing, seed: tf.Tensor) -> tf.Tensor:
    """Scales, pads, crops at random and mirrors: a pure function of image and seed.

    Args:
        image: uint8 [H, W, 3].
        preprocessing: sizes.
        seed: int32 [2], one for each image of each step.

    Returns:
        uint8 [crop, crop, 3].
    """
    image = _scale(image, preprocessing)
    shift = preprocessing.shift
    if shift:
        image = tf.pad(image, [[shift, shift], [shift, shift], [0, 0]], mode="SYMMETRIC")
    seeds = tf.random.experimental.stateless_split(seed, num=2)
    crop = preprocessing.crop
    image = tf.image.stateless_random_crop(image, [crop, crop, 3], seed=seeds[0])
    if preprocessing.mirror:
        image = tf.image.stateless_random_flip_left_right(image, seed=seeds[1])
    return image


def prepare_for_evaluation(image: tf.Tensor, preprocessing: Preprocessing) -> tf.Tensor:
    """Scales and cuts the centre: uint8 [H, W, 3] to uint8 [crop, crop, 3]."""
    image = _scale(image, preprocessing)
    crop = preprocessing.crop
    height, width = tf.shape(image)[0], tf.shape(image)[1]
    image = image[(height - crop) // 2 :, (width - crop) // 2 :][:crop, :crop]
    return tf.ensure_shape(image, [crop, crop, 3])


def _scale(image: tf.Tensor, preprocessing: Preprocessing) -> tf.Tensor:
    side = preprocessing.resize
    if not side or image.shape[:2] == (side, side):
        return image
    scaled = tf.image.resize(image, [side, side], antialias=True)
    return tf.cast(tf.clip_by_value(tf.round(scaled), 0.0, 255.0), tf.uint8)
