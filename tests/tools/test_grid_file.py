"""Grid files: axes, and forms that are refused."""

import re

import pytest
import run_grid
import yaml
from grid_runs.grid_file import read_grid

from tests.tools.grid_place import GRID, ROOT


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": None}, "Row|The grid|must be"),
        ({"sedes": [1]}, "must not have sedes"),
        ({"rows": {"one": {"flags": []}}}, "Row one must have method, table"),
        ({"axes": {"M": ["--steps_per_projection=1"]}}, "Axis M must map labels to lists of flags"),
        ({"seeds": [0, 0]}, "once, got twice: small-one-seed0"),
        ({"seeds": 3}, "`seeds` must be a list of whole numbers in .*, got 3"),
        ({"seeds": "012"}, "`seeds` must be a list of whole numbers"),
        ({"rows": ["one"]}, "`rows` must map names"),
        ({"rows": {1: {"flags": [], "table": 1, "method": "A"}}}, "`rows` must map names"),
        ({"rows": {"one": {"flags": None, "table": 1, "method": "A"}}}, "Row one must have a list of texts"),
        (
            {"rows": {"one": {"flags": [], "table": 1, "method": None}}},
            "Row one must have a text as `method`",
        ),
        ({"data_sets": {"small": None}}, "Data set small must have a list of texts as `flags`"),
        ({"flags": "--epochs=1"}, "The grid must have a list of texts as `flags` .*, got '--epochs=1'"),
        # What YAML makes of [--ks=1,2].
        ({"flags": ["--ks=1", 2]}, "quote a flag with a comma"),
        ({"flags": ["--seed=7"]}, "must leave seeds, folders and resuming to the grid .*, got --seed=7"),
        ({"axes": ["M"]}, "`axes` must map names"),
        ({"axes": {"M": {"1": [1]}}}, "M=1 must have a list of texts"),
    ],
)
def test_a_grid_of_another_form_is_refused(tmp_path, capsys, monkeypatch, change, message):
    monkeypatch.chdir(ROOT)
    path = tmp_path / "grid.yaml"
    path.write_text(yaml.safe_dump({**GRID, **change}))
    if change == {"rows": None}:
        path.write_text("- no\n- mapping\n")
    assert run_grid.main([f"--grid={path}", "--dry_run"]) == 2
    assert re.search(message, capsys.readouterr().err)


def test_a_row_named_twice_is_refused(tmp_path, capsys):
    path = tmp_path / "grid.yaml"
    path.write_text("rows:\n  one: {}\n  one: {}\n")
    assert run_grid.main([f"--grid={path}", "--dry_run"]) == 2
    assert re.search("--grid must be a YAML file, got .*'one' is there twice", capsys.readouterr().err)


def test_axes_are_combined_and_what_they_leave_alone_is_not_named(tmp_path):
    path = tmp_path / "grid.yaml"
    axes = {
        "M": {"1": ["--steps_per_projection=1"], "rule": []},
        "lambda": {"0": ["--proximal_weight=0"], "1e-3": []},
    }
    path.write_text(yaml.safe_dump({**GRID, "seeds": [5], "axes": axes}))
    runs = read_grid(path)
    assert [run.setting for run in runs if run.row == "two"] == ["M=1, lambda=0", "M=1", "lambda=0", ""]
    assert runs[0].name == "small-one-M=1_lambda=0-seed5"
    config = runs[4].config(tmp_path)
    assert (config.steps_per_projection, config.proximal_weight, config.seed) == (1, 0.0, 5)
