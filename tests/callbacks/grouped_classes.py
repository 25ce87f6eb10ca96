"""Pictures of classes in groups that look alike, and a small model that embeds them."""

import numpy as np
import tensorflow as tf

import profs_tf as profs
from profs_tf.datasets.image_list import ImageList

IMAGES = 3


def grouped_images(groups, group_size, class_noise, image_noise):
    """Classes in groups that look alike: class c is in group c % groups."""
    random = np.random.default_rng(0)
    looks = np.tile(random.integers(40, 216, (groups, 6, 6, 3)), (group_size, 1, 1, 1))
    classes = np.repeat(looks + random.integers(-class_noise, class_noise + 1, looks.shape), IMAGES, axis=0)
    pixels = classes + random.integers(-image_noise, image_noise + 1, classes.shape)
    return ImageList.from_labels(pixels.astype(np.uint8), np.repeat(np.arange(len(looks)), IMAGES))


GROUPS, NUM_CLASSES = 10, 40
DATA = grouped_images(GROUPS, 4, class_noise=8, image_noise=2)
PLAIN = profs.Preprocessing(resize=6, crop=6, mirror=False)


def make_model(learning_rate=1e-3, loss=None, **compile_options):
    images = tf.keras.Input([6, 6, 3])
    flat = tf.keras.layers.Flatten()(tf.keras.layers.Rescaling(1 / 127.5, -1.0)(images))
    head = tf.keras.layers.Dense(8, kernel_initializer=tf.keras.initializers.HeNormal(seed=3), name="head")
    embedder = tf.keras.Model(images, tf.keras.layers.UnitNormalization()(head(flat)))
    model = profs.ProfsModel(embedder, proximal_weight=1e-3)
    model.compile(
        profs.head_adam(embedder, learning_rate), loss or profs.losses.ContrastiveLoss(), **compile_options
    )
    return model


def weights(model):
    return [variable.numpy() for variable in model.embedder.variables]
