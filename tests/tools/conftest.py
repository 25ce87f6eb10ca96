"""A grid whose training is a fake; importing its module makes those of tools/ importable."""

import pytest

from tests.tools.grid_place import GRID, ROOT, Place


@pytest.fixture
def place(tmp_path, monkeypatch):
    # The tool goes to the repository; this brings the test back.
    monkeypatch.chdir(ROOT)
    made = Place(tmp_path, GRID)
    monkeypatch.setenv("FAKE_CONTROL", str(made.control))
    return made
