"""A folder of small pictures and an embedder of three numbers, for the tests of shards."""

import numpy as np
import tensorflow as tf
from PIL import Image

import profs_tf as profs

NUM_PICTURES = 22


def save_tiny_embedder(folder):
    """Writes an embedder that gives the mean color of a picture."""
    means = tf.keras.Sequential([tf.keras.Input((8, 8, 3)), tf.keras.layers.GlobalAveragePooling2D()])
    profs.save_embedder(means, profs.Preprocessing(resize=8, crop=8), folder)
    return folder


def draw_pictures(folder):
    """Draws pictures of four classes, some deeper in their folders."""
    random = np.random.default_rng(0)
    for number in range(NUM_PICTURES):
        path = folder / f"class {number % 4}" / f"{number % 3}" / f"{number:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        color = random.integers(0, 64, 3) + 50 * (number % 4)
        Image.fromarray(np.tile(color.astype(np.uint8), [8, 8, 1])).save(path)
    return folder


def mean_colors(paths):
    return np.stack([np.asarray(Image.open(path), np.float32).mean(axis=(0, 1)) for path in paths])


def contents(folder):
    """The bytes of a folder's files by name, without the lock."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
