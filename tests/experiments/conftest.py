import pytest

from tests.experiments.grid_configs import ROOT


@pytest.fixture(autouse=True)
def at_repository_root(monkeypatch):
    """Flag files name each other relative to it."""
    monkeypatch.chdir(ROOT)
