import pytest

from tests.helpers.saved_models import loaded_once  # noqa: F401
from tests.shards.tiny import draw_pictures, save_tiny_embedder


@pytest.fixture(scope="session")
def embedder(tmp_path_factory):
    return save_tiny_embedder(tmp_path_factory.mktemp("shards") / "embedder")


@pytest.fixture
def pictures(tmp_path):
    return draw_pictures(tmp_path / "bilder ü")
