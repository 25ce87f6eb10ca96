"""Runs the commands as a user types them, in processes of their own, on a folder of small drawings."""

import os
import subprocess
import sys

import numpy as np
import pytest
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


def command_line(name, *arguments):
    return [sys.executable, "-m", f"profs_tf.{name}", *map(str, arguments)]


def run_command(name, *arguments, expected=0, **options):
    options = {"timeout": 300, **options}
    done = subprocess.run(command_line(name, *arguments), capture_output=True, text=True, **options)
    assert done.returncode == expected, done.stdout + done.stderr
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
    done = run_command("train", *train_arguments, f"--output_dir={folder}", env=environment())
    return folder, done


def environment(**changes):
    return {**os.environ, **changes}
