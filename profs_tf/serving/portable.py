"""The embedder and its evaluation preprocessing as one function of plain operations.

`tf.image.resize` with antialiasing is an operation that neither TensorFlow Lite nor ONNX has. It is linear in
the image, and separable: here it is two matrix products, whose matrices are computed from the image's size.

Shapes: N images, H x W their size in pixels, S the side after scaling, D the embedding dimension.
"""

from __future__ import annotations

import tensorflow as tf

from profs_tf.inputs.preprocessing import Preprocessing


def portable_function(
    embedder: tf.keras.Model, preprocessing: Preprocessing
) -> tf.types.experimental.GenericFunction:
    """Returns the function from `images` to `embeddings` that the portable formats hold.

    `images` is float32 [N, H, W, 3], RGB with values 0 to 255, rounded to whole ones first; N, H and W may be
    anything. `embeddings` is float32 [N, D]. Scaling and cropping are those of the evaluation, but for
    rounding: where a scaled value lies half way between two grey levels, the other may be taken.

    Cost: scaling takes 3 N S W (H + S) multiplications beside the embedder's.

    Args:
        embedder: Keras model from images [N, crop, crop, 3] to [N, D], all in float32.
        preprocessing: the evaluation's.
    """
    crop = preprocessing.crop

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 3], tf.float32, name="images")])
    def embed_images(images: tf.Tensor) -> dict[str, tf.Tensor]:
        scaled = scale(_whole(images), preprocessing.resize)
        top, left = ((tf.shape(scaled)[axis] - crop) // 2 for axis in (1, 2))
        cropped = scaled[:, top : top + crop, left : left + crop]
        prepared = tf.ensure_shape(cropped, [None, crop, crop, 3])
        return {"embeddings": embedder(prepared, training=False)}

    return embed_images


def scale(images: tf.Tensor, side: int) -> tf.Tensor:
    """Scales images to `side` x `side`, bilinearly with antialiasing, rounded to whole values.

    Args:
        images: float32 [N, H, W, 3].
        side: S; 0 leaves the size.

    Returns:
        float32 [N, S, S, 3].
    """
    if not side:
        return images
    size = tf.shape(images)
    planes = tf.transpose(images, [0, 3, 1, 2])
    rows_scaled = tf.matmul(scaling_matrix(size[1], side), planes)
    scaled = tf.matmul(rows_scaled, tf.transpose(scaling_matrix(size[2], side)))
    return _whole(tf.transpose(scaled, [0, 2, 3, 1]))


def scaling_matrix(length: tf.Tensor, side: int) -> tf.Tensor:
    """Returns the weights by which the pixels of a line make those of a scaled one, float32 [S, length].

    The kernel is a triangle around each new pixel's centre, as wide as the new pixels are apart, at least two
    old pixels; each row sums to 1.

    Args:
        length: pixels of the line, int32 scalar.
        side: S, those of the scaled line.
    """
    step = tf.cast(length, tf.float32) / side
    centres = (tf.range(side, dtype=tf.float32) + 0.5) * step - 0.5
    places = tf.cast(tf.range(length), tf.float32)
    away = tf.abs(centres[:, tf.newaxis] - places[tf.newaxis, :])
    weights = tf.nn.relu(1.0 - away / tf.maximum(step, 1.0))
    return weights / tf.reduce_sum(weights, axis=1, keepdims=True)


def _whole(images: tf.Tensor) -> tf.Tensor:
    return tf.clip_by_value(tf.round(images), 0.0, 255.0)
