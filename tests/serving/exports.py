"""What the tests of the export formats share: sizes, a model card, and the expected embeddings."""

import tensorflow as tf

from profs_tf.inputs.preprocessing import Preprocessing, prepare_for_evaluation

PREPROCESSING = Preprocessing(resize=32, crop=24)
SIZES = ((32, 32), (40, 30), (17, 23), (90, 121))


def describe(differences):
    return f"card of {', '.join(differences)}\n"


def expected_of(embedder, images, preprocessing=PREPROCESSING):
    prepared = tf.stack([prepare_for_evaluation(tf.constant(image), preprocessing) for image in images])
    return embedder(prepared, training=False).numpy()
