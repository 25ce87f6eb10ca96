"""One image on its way into the embedder: decode, resize, crop, mirror.

Shapes: images are uint8 [H, W, 3], RGB, values 0 to 255, before and after; the embedder scales the values.
"""

from dataclasses import asdict, dataclass

import tensorflow as tf


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

    def __post_init__(self):
        if self.resize < 0:
            raise ValueError(f"`resize` must be >= 0 pixels, got {self.resize}.")
        if self.crop < 1:
            raise ValueError(f"`crop` must be >= 1 pixel, got {self.crop}.")
        if self.shift < 0:
            raise ValueError(f"`shift` must be >= 0 pixels, got {self.shift}.")
        if self.resize and self.crop > self.resize:
            raise ValueError(
                f"`crop` must be <= `resize` = {self.resize}, got {self.crop}. Raise `resize` with it."
            )

    def to_dict(self) -> dict:
        """Returns the attributes as a plain dict, for JSON."""
        return asdict(self)


def preprocessing_for(image_list) -> Preprocessing:
    """Returns the default for a data set: the paper's for files; for images in memory, their own size.

    Small pictures in memory are shifted by at most 1/12 of their side in place of being scaled and cropped.

    Raises:
        ValueError: if images in memory are not square.
    """
    if not image_list.is_in_memory:
        return Preprocessing()
    height, width = image_list.images.shape[1:3]
    if height != width:
        raise ValueError(
            f"`images` must be square for the default preprocessing, got {height} x {width}. "
            "Pass `preprocessing=Preprocessing(resize=..., crop=...)`."
        )
    return Preprocessing(resize=height, crop=height, shift=height // 12)


def decode(encoded: tf.Tensor) -> tf.Tensor:
    """Decodes a JPEG, PNG, GIF (first frame) or BMP file's bytes, string scalar, to uint8 [H, W, 3]."""
    image = tf.cond(
        tf.io.is_jpeg(encoded),
        # TensorFlow's default is a faster transform that is off by up to seven grey levels.
        lambda: tf.io.decode_jpeg(encoded, channels=3, dct_method="INTEGER_ACCURATE"),
        lambda: tf.io.decode_image(encoded, channels=3, expand_animations=False),
    )
    return tf.ensure_shape(image, [None, None, 3])


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
