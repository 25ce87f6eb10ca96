import pytest
import tensorflow as tf

from tests.models.small_embedders import small


@pytest.fixture(scope="module")
def embedder():
    return small(seed=0)


@pytest.fixture
def mixed_policy(request):
    tf.keras.mixed_precision.set_global_policy(request.param)
    yield request.param
    tf.keras.mixed_precision.set_global_policy("float32")
