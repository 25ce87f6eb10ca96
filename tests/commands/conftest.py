"""Runs the commands in processes of their own, on a folder of small drawings.

Train and evaluate start as a user starts them; elsewhere a process that has imported TensorFlow forks the
command. tests/test_package.py imports each command in a fresh process.
"""

import contextlib
import fcntl
import json
import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image, ImageDraw

from tests.commands.run_commands import MINED, TRAIN, run_as_typed

# Its assertions then tell what differs.
pytest.register_assert_rewrite("tests.commands.run_state")


@pytest.fixture(scope="session")
def shared(tmp_path_factory, worker_id):
    """A folder that pytest's workers have in common."""
    own = tmp_path_factory.getbasetemp()
    return own if worker_id == "master" else own.parent


@contextlib.contextmanager
def to_make(folder):
    """Tells whether a folder is still to be made, and has other workers wait until it is."""
    with open(folder.with_suffix(".lock"), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield not folder.exists()


@pytest.fixture(scope="session")
def pictures(shared):
    """A folder of 12 classes with 5 pictures each: a shape in a color, somewhere."""
    root = shared / "bilder ü"
    with to_make(root) as missing:
        if missing:
            draw_pictures(root)
    return root


def draw_pictures(root):
    random = np.random.default_rng(0)
    for number in range(12):
        folder = root / f"class {number:02}"
        folder.mkdir(parents=True)
        color = tuple(int(value) for value in random.integers(0, 200, 3))
        for copy in range(5):
            picture = Image.new("RGB", (30, 30), "white")
            left, top = random.integers(0, 10, 2)
            box = [left, top, left + 18, top + 12 + number % 4 * 2]
            draw = ImageDraw.Draw(picture)
            (draw.ellipse if number % 2 else draw.rectangle)(box, fill=color)
            picture.save(folder / f"{copy}.png")


@pytest.fixture(scope="session")
def train_arguments(pictures):
    return (f"--dataset=folder:{pictures}", *TRAIN)


@pytest.fixture(scope="session")
def mined_arguments(train_arguments):
    """Of a run with everything that a resumed one must take up again."""
    return (*train_arguments, *MINED)


@pytest.fixture(scope="session")
def whole_run(mined_arguments, shared):
    """The folder and the output of a run that nothing interrupted."""
    folder, printed = shared / "whole", shared / "whole.json"
    with to_make(folder) as missing:
        if missing:
            done = run_as_typed("train", *mined_arguments, f"--output_dir={folder}")
            printed.write_text(json.dumps([done.args, done.returncode, done.stdout, done.stderr]))
    return folder, subprocess.CompletedProcess(*json.loads(printed.read_text()))


@pytest.fixture
def quarter_embedder(whole_run, tmp_path):
    """The embedder of a run with another split of the data set: 3 training classes, 9 test classes."""
    shutil.copytree(whole_run[0] / "embedder", tmp_path / "run/embedder")
    config = json.loads((whole_run[0] / "config.json").read_text("utf-8"))
    text = json.dumps({**config, "train_classes": "0.25"})
    (tmp_path / "run/config.json").write_text(text, "utf-8")
    return tmp_path / "run/embedder"
