"""One image on its way into the embedder: resize, crop, flip.

Shapes: images are uint8 [H, W, 3], RGB, values 0 to 255, before and after; the embedder scales the values. H,
W are the height and width of an image in pixels.

Crops and flips are stateless operations of `tf.image` instead of KerasCV's layers, which need eight times the
CPU time for the same crop and flip of a batch (the last line of ``tools/benchmark_input.py``) and draw
from a running generator, so that a resumed run would not get the images that it would have had.
"""

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.augmentation import erase, jitter_colors, random_resized_crop
from profs_tf.utils.checks import check_one_of

AUGMENTATIONS = ("crop", "random_resized_crop")
ASPECTS = ("stretch", "crop", "pad")
# Of the border that "pad" adds.
GRAY = 127


@dataclass(frozen=True)
class Preprocessing:
    """The preprocessing of an image in training and in evaluation.

    Training: scale to ``resize`` x ``resize``, pad each side by ``shift`` mirrored pixels, take a random crop
    of ``crop`` x ``crop``, flip left to right with probability 1/2. Evaluation: scale, take the central crop.
    Scaling stretches the image to a square by default, as in the paper (section 5.2: scaled to 256 x 256,
    random crop of 224 x 224, horizontal mirroring).

    Training may change images further, see `inputs.augmentation`; evaluation does not.

    Attributes:
        resize: Side in pixels after scaling; 0 keeps the image's size.
        crop: Side in pixels of the embedder's input.
        shift: Pixels added on each side before the random crop; with ``crop == resize`` the largest shift of
            the image.
        mirror: Whether training flips images.
        augmentation: "crop" as above, or "random_resized_crop": a part of random size and ratio, scaled.
        color_jitter: Largest relative change of brightness, contrast and saturation in training, in [0, 1].
        erasing: Probability that training paints over a rectangle of the image.
        aspect: How an image becomes the square that is scaled. "stretch" does not keep the aspect ratio;
            "crop" takes the central square; "pad" adds a gray border on the shorter sides.

    Raises:
        ValueError: If a size is out of range, or the crop is larger than the image.
    """

    resize: int = 256
    crop: int = 224
    shift: int = 0
    mirror: bool = True
    augmentation: str = "crop"
    color_jitter: float = 0.0
    erasing: float = 0.0
    aspect: str = "stretch"

    def __post_init__(self) -> None:
        if self.resize < 0:
            raise ValueError(f"`resize` must be >= 0 pixels, got {self.resize}.")
        if self.crop < 1:
            raise ValueError(f"`crop` must be >= 1 pixel, got {self.crop}.")
        if self.shift < 0:
            raise ValueError(f"`shift` must be >= 0 pixels, got {self.shift}.")
        if self.shift >= (self.resize or self.crop):
            # The border is the image mirrored, so it cannot be wider than the image.
            raise ValueError(
                f"`shift` must be less than the image's side of {self.resize or self.crop} pixels, "
                f"got {self.shift}."
            )
        check_one_of("augmentation", self.augmentation, AUGMENTATIONS)
        check_one_of("aspect", self.aspect, ASPECTS)
        if self.aspect != "stretch" and not self.resize:
            raise ValueError(
                f"`resize` must be >= 1 pixel with `aspect` {self.aspect}, got 0, which does not scale."
            )
        if self.shift and self.augmentation != "crop":
            raise ValueError(f"`shift` must be 0 with `augmentation` {self.augmentation}, got {self.shift}.")
        for name in ("color_jitter", "erasing"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"`{name}` must be in [0, 1], got {getattr(self, name)}.")
        if self.resize and self.crop > self.resize:
            raise ValueError(
                f"`crop` must be <= `resize` = {self.resize}, got {self.crop}. Raise `resize` with it."
            )


def preprocessing_for(image_list: ImageList) -> Preprocessing:
    """Returns the default for a data set: the paper's for files; the images' own size for images in memory.

    Images in memory are shifted by at most 1/12 of their side instead of being scaled and cropped.

    Raises:
        ValueError: If images in memory are not square.
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


def crop_to_box(image: tf.Tensor, box: tf.Tensor) -> tf.Tensor:
    """Crops an image to the part of a bounding box that lies inside it.

    Args:
        image: uint8 [H, W, 3].
        box: float [4]: x and y of the upper left corner, width and height, in pixels.

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
    """Scales, pads, crops, flips and augments an image at random: a pure function of image and seed.

    Args:
        image: uint8 [H, W, 3].
        preprocessing: The sizes.
        seed: int32 [2], different for each image of each step.

    Returns:
        uint8 [crop, crop, 3].
    """
    image = _scale(image, preprocessing)
    shift = preprocessing.shift
    if shift:
        image = tf.pad(image, [[shift, shift], [shift, shift], [0, 0]], mode="SYMMETRIC")
    seeds = tf.random.experimental.stateless_split(seed, num=2)
    crop = preprocessing.crop
    if preprocessing.augmentation == "random_resized_crop":
        image = random_resized_crop(image, crop, seeds[0])
    else:
        image = tf.image.stateless_random_crop(image, [crop, crop, 3], seed=seeds[0])
    if preprocessing.mirror:
        image = tf.image.stateless_random_flip_left_right(image, seed=seeds[1])
    if preprocessing.color_jitter:
        image = jitter_colors(image, preprocessing.color_jitter, _further_seed(seed, 0))
    if preprocessing.erasing:
        image = erase(image, preprocessing.erasing, _further_seed(seed, 1))
    return image


def _further_seed(seed: tf.Tensor, number: int) -> tf.Tensor:
    """Returns a seed that no other operation on the image has."""
    return tf.random.experimental.stateless_fold_in(seed, number)


def prepare_for_evaluation(image: tf.Tensor, preprocessing: Preprocessing) -> tf.Tensor:
    """Scales an image and takes its central crop: uint8 [H, W, 3] to uint8 [crop, crop, 3]."""
    image = _scale(image, preprocessing)
    crop = preprocessing.crop
    height, width = tf.shape(image)[0], tf.shape(image)[1]
    image = image[(height - crop) // 2 :, (width - crop) // 2 :][:crop, :crop]
    return tf.ensure_shape(image, [crop, crop, 3])


def to_square(images: tf.Tensor, aspect: str) -> tf.Tensor:
    """Makes images square without scaling, as `Preprocessing.aspect` says; "stretch" leaves them as they are.

    Args:
        images: Of any type with values 0 to 255, [..., H, W, 3].
        aspect: One of `ASPECTS`.

    Returns:
        [..., S, S, 3] with S = min(H, W) for "crop" and max(H, W) for "pad".
    """
    if aspect == "stretch":
        return images
    height, width = tf.shape(images)[-3], tf.shape(images)[-2]
    if aspect == "crop":
        side = tf.minimum(height, width)
        top, left = (height - side) // 2, (width - side) // 2
        return images[..., top : top + side, left : left + side, :]
    side = tf.maximum(height, width)
    top, left = (side - height) // 2, (side - width) // 2
    border = [[top, side - height - top], [left, side - width - left], [0, 0]]
    return tf.pad(
        images, [[0, 0]] * (images.shape.rank - 3) + border, constant_values=tf.cast(GRAY, images.dtype)
    )


def _scale(image: tf.Tensor, preprocessing: Preprocessing) -> tf.Tensor:
    side = preprocessing.resize
    if not side or image.shape[:2] == (side, side):
        return image
    scaled = tf.image.resize(to_square(image, preprocessing.aspect), [side, side], antialias=True)
    return tf.cast(tf.clip_by_value(tf.round(scaled), 0.0, 255.0), tf.uint8)
