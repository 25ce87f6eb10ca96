import warnings

import pytest


@pytest.fixture(scope="session")
def tfa():
    """TensorFlow Addons, which has no release for Python 3.12; imported without its notice that it ends."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("tensorflow_addons")
