"""Two exported embedders and a folder of pictures, for the tests of the index."""

from unittest import mock

import numpy as np
import pytest
from PIL import Image

from profs_tf.inputs.preprocessing import Preprocessing
from profs_tf.search import source as index_source
from profs_tf.serving.saved_model import save_embedder
from tests.helpers.saved_models import loaded_once  # noqa: F401
from tests.serving.exports import small_embedder


@pytest.fixture(scope="session")
def embedders(tmp_path_factory):
    """Two untrained ones, whose pictures are 24 x 24."""
    root = tmp_path_factory.mktemp("embedders")
    for seed in (1, 2):
        save_embedder(small_embedder(seed), Preprocessing(24, 24), root / f"{seed}")
    return root / "1", root / "2"


@pytest.fixture
def pictures(tmp_path):
    """Forty pictures in a folder, some deeper; chunks of about four."""
    root = tmp_path / "bilder ü"
    random = np.random.default_rng(0)
    for number in range(40):
        path = root / f"{number % 3}" / f"{number:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (20, 30, 3), np.uint8)).save(path)
    with mock.patch.object(index_source, "_MEAN_CHUNK", 4):
        yield root
