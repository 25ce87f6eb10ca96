"""The embedder and its evaluation preprocessing as one function that TensorFlow Lite and ONNX can express.

Neither has an operation for `tf.image.resize` with antialiasing. It is linear in the image, and separable:
here it is two matrix products, whose matrices are computed from the image's size.

Shapes: N images, H x W their size in pixels, S the size after scaling, D the embedding dimension.
"""

from __future__ import annotations

import tensorflow as tf

from profs_tf.inputs.preprocessing import GRAY, Preprocessing, to_square


def portable_function(
    embedder: tf.keras.Model, preprocessing: Preprocessing
) -> tf.types.experimental.GenericFunction:
    """Returns the function from `images` to `embeddings` that the portable formats hold.

    `images` is float32 [N, H, W, 3] of any N, H and W, RGB with values 0 to 255, rounded to integers first.
    `embeddings` is float32 [N, D]. Scaling and cropping are those of the evaluation, except for rounding: a
    scaled value half way between two integers may be rounded to the other one.

    Scaling takes 3 N S W (H + S) multiplications besides those of the embedder.

    Args:
        embedder: Keras model from images [N, crop, crop, 3] to [N, D], all in float32.
        preprocessing: That of the evaluation.
    """
    crop = preprocessing.crop

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 3], tf.float32, name="images")])
    def embed_images(images: tf.Tensor) -> dict[str, tf.Tensor]:
        scaled = scale(_rounded(images), preprocessing.resize, preprocessing.aspect)
        top, left = ((tf.shape(scaled)[axis] - crop) // 2 for axis in (1, 2))
        cropped = scaled[:, top : top + crop, left : left + crop]
        prepared = tf.ensure_shape(cropped, [None, crop, crop, 3])
        return {"embeddings": embedder(prepared, training=False)}

    return embed_images


def scale(images: tf.Tensor, size: int, aspect: str = "stretch") -> tf.Tensor:
    """Scales images to `size` x `size`, bilinearly with antialiasing, and rounds to integers.

    Args:
        images: float32 [N, H, W, 3].
        size: S; 0 keeps the images' size.
        aspect: As of `Preprocessing`.

    Returns:
        float32 [N, S, S, 3].
    """
    if not size:
        return images
    if aspect == "crop":
        images = to_square(images, aspect)
    height, width = tf.shape(images)[1], tf.shape(images)[2]
    planes = tf.transpose(images, [0, 3, 1, 2])
    if aspect == "pad":
        # The converters lose the number of channels in a border of dynamic size. Without the gray the border
        # is zero, and the columns of the matrices that belong to it can be left out.
        side = tf.maximum(height, width)
        rows = _central_columns(scaling_matrix(side, size), height)
        columns = _central_columns(scaling_matrix(side, size), width)
        scaled = tf.matmul(tf.matmul(rows, planes - GRAY), tf.transpose(columns)) + GRAY
    else:
        rows_scaled = tf.matmul(scaling_matrix(height, size), planes)
        scaled = tf.matmul(rows_scaled, tf.transpose(scaling_matrix(width, size)))
    return _rounded(tf.transpose(scaled, [0, 2, 3, 1]))


def _central_columns(matrix: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    begin = (tf.shape(matrix)[1] - count) // 2
    return matrix[:, begin : begin + count]


def scaling_matrix(length: tf.Tensor, size: int) -> tf.Tensor:
    """Returns the weights of the old pixels of a line in each new pixel, float32 [S, length].

    The kernel is a triangle around each new pixel's center whose half width is the distance of new pixels, at
    least one old pixel; each row sums to 1.

    Args:
        length: Pixels of the line, int32 scalar.
        size: S, pixels of the scaled line.
    """
    step = tf.cast(length, tf.float32) / size
    centers = (tf.range(size, dtype=tf.float32) + 0.5) * step - 0.5
    pixels = tf.cast(tf.range(length), tf.float32)
    distances = tf.abs(centers[:, tf.newaxis] - pixels[tf.newaxis, :])
    weights = tf.nn.relu(1.0 - distances / tf.maximum(step, 1.0))
    return weights / tf.reduce_sum(weights, axis=1, keepdims=True)


def _rounded(images: tf.Tensor) -> tf.Tensor:
    return tf.clip_by_value(tf.round(images), 0.0, 255.0)
