"""Images, and a small embedder for them."""

import functools

import numpy as np

from profs_tf.models.embedder import build_embedder


def random_images(side=32, number=4, dtype=np.uint8):
    return np.random.default_rng(0).integers(0, 256, (number, side, side, 3)).astype(dtype)


small = functools.partial(build_embedder, "conv4", 8)
