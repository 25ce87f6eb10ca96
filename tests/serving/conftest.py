"""Smooth pictures, an untrained embedder, and its export in three formats."""

import numpy as np
import pytest
import tensorflow as tf

from profs_tf.models.embedder import build_embedder
from profs_tf.serving.formats import export_embedder
from tests.serving.exports import PREPROCESSING, SIZES, describe


@pytest.fixture(scope="session")
def pictures():
    """Smooth pictures, as photographs are: scaling would remove most of a noise."""
    random = np.random.default_rng(0)
    made = []
    for height, width in SIZES:
        coarse = random.integers(0, 256, (height // 8 + 2, width // 8 + 2, 3))
        smooth = tf.image.resize(coarse, [height, width], "bicubic").numpy()
        made.append(np.clip(np.round(smooth), 0, 255).astype(np.uint8))
    return made


@pytest.fixture(scope="session")
def embedder():
    return build_embedder("conv4", 8, seed=1)


@pytest.fixture(scope="session")
def exported(embedder, pictures, tmp_path_factory):
    folder = tmp_path_factory.mktemp("export") / "embedder ü"
    names = ("tflite_float16", "saved_model", "tflite")
    differences = export_embedder(folder, names, embedder, PREPROCESSING, pictures, describe)
    return folder, differences
