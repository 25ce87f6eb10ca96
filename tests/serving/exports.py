"""What the tests of the exports share: sizes, a small embedder, a model card, and the expected embeddings."""

import tensorflow as tf

from profs_tf.inputs.preprocessing import Preprocessing, prepare_for_evaluation
from profs_tf.models.embedder import build_embedder

PREPROCESSING = Preprocessing(resize=32, crop=24)
SIZES = ((32, 32), (40, 30), (17, 23), (90, 121))


def small_embedder(seed):
    """Of few layers, since Keras traces each of them several times to save it."""
    images = tf.keras.Input([24, 24, 3])
    kernel = tf.keras.initializers.HeNormal(seed=seed)
    x = tf.keras.layers.Rescaling(1 / 127.5, -1.0)(images)
    x = tf.keras.layers.Conv2D(8, 3, strides=2, kernel_initializer=kernel)(x)
    x = tf.keras.layers.ReLU()(tf.keras.layers.BatchNormalization()(x))
    return build_embedder(tf.keras.Model(images, x), 8, seed=seed)


def describe(differences):
    return f"card of {', '.join(differences)}\n"


def expected_of(embedder, images, preprocessing=PREPROCESSING):
    prepared = tf.stack([prepare_for_evaluation(tf.constant(image), preprocessing) for image in images])
    return embedder(prepared, training=False).numpy()
