"""A folder with a grid whose training is a fake, for the tests of the tool that runs grids."""

import csv
import json
import sys
import time
from pathlib import Path

import yaml
from PIL import Image

TESTS = Path(__file__).parent
TOOLS = TESTS.parents[1] / "tools"
sys.path.insert(0, str(TOOLS))

import run_grid  # noqa: E402
from grid_runs.grid_file import read_grid  # noqa: E402

from tests.helpers.forked_process import ForkedProcess  # noqa: E402

ROOT = TOOLS.parent
FAKE = (sys.executable, str(TESTS / "fake_train.py"))
GRID = {
    "data_sets": {"small": ["--dataset=folder:PICTURES", "--epochs=2", "--ks=1,2"]},
    "rows": {
        "one": {"flags": ["--method=baseline"], "table": 1, "method": "Margin-Hard"},
        "two": {"flags": ["--method=profs"], "table": 1, "method": "M-PROFS"},
    },
    "seeds": [0, 1],
}
NAMES = ["small-one-seed0", "small-two-seed0", "small-one-seed1", "small-two-seed1"]
# Runs a grid in a process of its own, which can be killed.
HARNESS = (
    f"import sys; sys.path.insert(0, {str(TOOLS)!r}); import run_grid; sys.exit(run_grid.main(sys.argv[2:], "
)


def draw_pictures(folder):
    """Eight classes of three pictures."""
    for number in range(8):
        (folder / f"c{number}").mkdir(parents=True)
        for copy in range(3):
            color = (30 * number, 80 * copy, 255 - 30 * number)
            Image.new("RGB", (24, 24), color).save(folder / f"c{number}" / f"{copy}.png")


class Place:
    """A folder with a grid, and the fake's orders."""

    def __init__(self, root, grid):
        self.root, self.control, self.runs = root, root / "control", root / "runs"
        self.results = root / "results.csv"
        self.control.mkdir(exist_ok=True)
        self.grid = root / "grid.yaml"
        draw_pictures(root / "pictures")
        self.grid.write_text(yaml.safe_dump(grid).replace("PICTURES", str(root / "pictures")))
        for run in read_grid(self.grid):
            (self.control / f"{run.name}.json").write_text(run.config(self.runs / run.name).to_json())

    @property
    def arguments(self):
        return [f"--grid={self.grid}", f"--runs_dir={self.runs}", f"--results={self.results}"]

    def run(self, *more):
        return run_grid.main([*self.arguments, *more], FAKE)

    def start(self, command, *more):
        code = f"{HARNESS}command={command!r}))"
        return ForkedProcess("-c", code, "grid", *self.arguments, *more, merged=True)

    def calls(self):
        path = self.control / "calls.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        return [tuple(line.split()[:2]) for line in lines]

    def rows(self):
        with open(self.results, newline="") as file:
            return list(csv.DictReader(file))

    def record(self, name):
        return json.loads((self.runs / f"{name}.json").read_text())


def wait_for(condition, process=None):
    deadline = time.monotonic() + 300
    while not condition():
        assert process is None or process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.01)
