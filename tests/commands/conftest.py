"""Runs the commands in processes of their own, on a folder of small drawings.

Each command is started once as a user starts it; elsewhere a process that has imported TensorFlow forks it.
"""

import subprocess
import sys

import numpy as np
import pytest
from forked_process import run_forked
from PIL import Image, ImageDraw

# Its assertions then tell what differs.
pytest.register_assert_rewrite("run_state")

STEPS_PER_EPOCH = 40
TRAIN = (
    "--backbone=conv4",
    "--embedding_dim=16",
    "--image_resize=24",
    "--image_shift=2",
    "--batch_size=12",
    "--learning_rate=1e-3",
    "--ks=1,2",
    f"--steps_per_epoch={STEPS_PER_EPOCH}",
    "--epochs=3",
    "--progress=none",
    "--tensorboard=full",
)


def run_command(name, *arguments, expected=0, **options):
    return as_expected(run_forked("-m", f"profs_tf.{name}", *arguments, **options), expected)


def run_as_typed(name, *arguments, expected=0):
    words = [sys.executable, "-m", f"profs_tf.{name}", *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    return as_expected(done, expected)


def as_expected(done, code):
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    """A folder of 12 classes with 5 pictures each: a shape in a colour, somewhere."""
    root = tmp_path_factory.mktemp("bilder ü")
    random = np.random.default_rng(0)
    for number in range(12):
        folder = root / f"class {number:02}"
        folder.mkdir()
        colour = tuple(int(value) for value in random.integers(0, 200, 3))
        for copy in range(5):
            picture = Image.new("RGB", (30, 30), "white")
            left, top = random.integers(0, 10, 2)
            box = [left, top, left + 18, top + 12 + number % 4 * 2]
            draw = ImageDraw.Draw(picture)
            (draw.ellipse if number % 2 else draw.rectangle)(box, fill=colour)
            picture.save(folder / f"{copy}.png")
    return root


@pytest.fixture(scope="session")
def train_arguments(pictures):
    return (f"--dataset=folder:{pictures}", *TRAIN)


@pytest.fixture(scope="session")
def whole_run(train_arguments, tmp_path_factory):
    """The folder and the output of a run that nothing interrupted."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    return folder, run_as_typed("train", *train_arguments, f"--output_dir={folder}")
