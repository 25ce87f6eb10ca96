"""A linear embedder in float64 and batches of features, which tests can replay by hand."""

import numpy as np
import tensorflow as tf

import profs_tf as profs

NUM_CLASSES, IMAGES, FEATURES, DIM = 5, 4, 6, 3
LABELS = np.repeat(np.arange(NUM_CLASSES), IMAGES)
IMAGE_FEATURES = np.random.default_rng(0).normal(size=(len(LABELS), FEATURES))
# Powers of two, which float32 and float64 hold alike: Keras keeps rates in float32.
RATE, WEIGHT, MARGIN = 2.0**-4, 2.0**-2, 1.0


def linear_embedder():
    images = tf.keras.Input([FEATURES], dtype="float64")
    embeddings = tf.keras.layers.Dense(DIM, name="head", dtype="float64")(images)
    embedder = tf.keras.Model(images, embeddings)
    random = np.random.default_rng(1)
    embedder.set_weights([random.normal(size=(FEATURES, DIM)) * 0.3, random.normal(size=DIM) * 0.3])
    return embedder


def batches(sampler, num_steps):
    def rows():
        for step in range(sampler.first_step, sampler.first_step + num_steps):
            batch = sampler.batch(step)
            yield IMAGE_FEATURES[batch.indices], batch.labels, batch.is_representative

    size = sampler.batch_size
    signature = (
        tf.TensorSpec([size, FEATURES], tf.float64),
        tf.TensorSpec([size], tf.int64),
        tf.TensorSpec([size], tf.float32),
    )
    return tf.data.Dataset.from_generator(rows, output_signature=signature).prefetch(4)


def compiled_model(embedder=None, **options):
    model = profs.ProfsModel(linear_embedder() if embedder is None else embedder, proximal_weight=WEIGHT)
    model.compile(tf.keras.optimizers.SGD(RATE), profs.losses.ContrastiveLoss(margin=MARGIN), **options)
    return model
