"""Random changes of a training image beyond crop and flip: pure functions of image and seed.

Shapes: images are uint8 [H, W, 3], RGB, before and after.

All are built of stateless operations of `tf.image`, so that a resumed run gets the images that it would have
had.
"""

import numpy as np
import tensorflow as tf

# Of a random resized crop: share of the image's area, and width over height.
CROP_AREAS = (0.2, 1.0)
CROP_RATIOS = (3 / 4, 4 / 3)
# Of an erased rectangle (Zhong et al., Random Erasing, AAAI 2020, with a smaller largest area).
ERASED_AREAS = (0.02, 0.25)
ERASED_RATIOS = (0.3, 1 / 0.3)


def random_resized_crop(image: tf.Tensor, side: int, seed: tf.Tensor) -> tf.Tensor:
    """Scales a random part of the image to side x side pixels (Szegedy et al., CVPR 2015, section 6).

    The part has 20 to 100 % of the image's area and a ratio of width to height between 3/4 and 4/3; after ten
    draws that do not fit into the image it is the whole image.

    Args:
        image: uint8 [H, W, 3].
        side: Of the result in pixels.
        seed: int32 [2].

    Returns:
        uint8 [side, side, 3].
    """
    begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
        tf.shape(image),
        tf.zeros([1, 0, 4]),
        seed,
        min_object_covered=0.0,
        area_range=CROP_AREAS,
        aspect_ratio_range=CROP_RATIOS,
        max_attempts=10,
        use_image_if_no_bounding_boxes=True,
    )
    scaled = tf.image.resize(tf.slice(image, begin, size), [side, side], antialias=True)
    return _to_uint8(scaled)


def jitter_colors(image: tf.Tensor, strength: float, seed: tf.Tensor) -> tf.Tensor:
    """Changes brightness, contrast and saturation, in this order, each by a factor drawn about 1.

    Args:
        image: uint8 [H, W, 3].
        strength: The factors are uniform in 1 - strength to 1 + strength; in [0, 1].
        seed: int32 [2].
    """
    factors = tf.random.stateless_uniform([3], seed, 1.0 - strength, 1.0 + strength)
    values = tf.cast(image, tf.float32) * factors[0]
    mean = tf.reduce_mean(_gray(values))
    values = mean + (values - mean) * factors[1]
    gray = _gray(values)
    return _to_uint8(gray + (values - gray) * factors[2])


def erase(image: tf.Tensor, probability: float, seed: tf.Tensor) -> tf.Tensor:
    """With some probability paints a random rectangle in the image's mean color.

    The rectangle has 2 to 25 % of the image's area and a ratio of width to height between 0.3 and 3.3; sides
    longer than the image's are cut to it.

    Args:
        image: uint8 [H, W, 3].
        probability: Of erasing.
        seed: int32 [2].
    """
    drawn = tf.random.stateless_uniform([5], seed)
    height, width = tf.unstack(tf.cast(tf.shape(image)[:2], tf.float32))
    area = height * width * (ERASED_AREAS[0] + drawn[1] * (ERASED_AREAS[1] - ERASED_AREAS[0]))
    low, high = np.log(ERASED_RATIOS)
    root = tf.exp((low + drawn[2] * (high - low)) / 2.0)
    rows = tf.minimum(tf.round(tf.sqrt(area) / root), height)
    columns = tf.minimum(tf.round(tf.sqrt(area) * root), width)
    top, left = tf.round(drawn[3] * (height - rows)), tf.round(drawn[4] * (width - columns))
    y, x = tf.range(height)[:, None, None], tf.range(width)[None, :, None]
    inside = (y >= top) & (y < top + rows) & (x >= left) & (x < left + columns)
    mean = _to_uint8(tf.reduce_mean(tf.cast(image, tf.float32), axis=[0, 1]))
    return tf.where(inside & (drawn[0] < probability), mean, image)


def _gray(values: tf.Tensor) -> tf.Tensor:
    """Returns the luma (ITU-R BT.601) of each pixel, [H, W, 1]."""
    return tf.reduce_sum(values * tf.constant([0.299, 0.587, 0.114]), axis=-1, keepdims=True)


def _to_uint8(values: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.clip_by_value(tf.round(values), 0.0, 255.0), tf.uint8)
