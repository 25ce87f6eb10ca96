"""Loads every SavedModel once, for tests that do not change one: loading takes seconds."""

import functools
from unittest import mock

import pytest

from profs_tf.serving import loaded


@pytest.fixture(scope="session", autouse=True)
def loaded_once():
    """Caches the loaded signatures."""
    cached = functools.lru_cache(maxsize=None)(loaded.load_signature)
    with mock.patch.object(loaded, "load_signature", cached):
        yield
