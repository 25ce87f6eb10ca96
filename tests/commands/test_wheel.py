"""The wheel in an empty folder, without the repository: BUILD.md's commands train, export, index and find."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import profs_tf as profs

ROOT = Path(__file__).parents[2]
SECTION = "### All of it with the wheel alone"
SHORT = ("--epochs=1", "--steps_per_epoch=15", "--clustering=never")
NUM_QUERIES = 200


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder into which the wheel was installed, and nothing else."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    # Building leaves files where the sources are.
    source.mkdir()
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "profs_tf", source / "profs_tf", ignore=shutil.ignore_patterns("__pycache__"))
    pip("wheel", "--no-deps", "--no-build-isolation", f"--wheel-dir={folder}", source)
    (wheel,) = folder.glob("*.whl")
    pip("install", "--no-deps", f"--target={folder / 'site'}", wheel)
    return folder / "site"


def pip(*words):
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def python(site, folder, *words):
    """Runs Python in a folder with the installed wheel; returns what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def documented_lines():
    text = (ROOT / "BUILD.md").read_text("utf-8").split(SECTION)[1]
    block = re.search(r"```bash\n(.*?)```", text, re.DOTALL).group(1)
    for line in block.replace("\\\n", " ").splitlines():
        command, *words = shlex.split(line)
        assert command == "python"
        yield words


def share_found(site, folder, images, queries):
    """Returns the share of queries with a drawing of their own emoji among the eight found."""
    positions = ",".join(map(str, queries))
    words = ("-m", "profs_tf.retrieve", "--index=emoji.index", f"--indexed={positions}", "--k=8", "--json")
    answer = json.loads(python(site, folder, *words))
    rows = answer["queries"]
    assert len(rows) == NUM_QUERIES
    found = [
        images.class_names[images.labels[position]] in {item["class"] for item in row["neighbors"]}
        for position, row in zip(queries, rows)
    ]
    return np.mean(found)


# Processes that begin afresh take half a minute in all; .ci/run runs the short one.
@pytest.mark.slow
@pytest.mark.parametrize("shorter", [SHORT, ()], ids=["short", "long"])
def test_the_readmes_lines_find_as_often_as_recall_says(shorter, site, tmp_path):
    where = python(site, tmp_path, "-c", "import profs_tf; print(profs_tf.__file__)").strip()
    assert Path(where) == site / "profs_tf/__init__.py"
    for words in documented_lines():
        python(site, tmp_path, *words, *(shorter if words[1] == "profs_tf.train" else ()))
    recall = json.loads((tmp_path / "run/metrics.json").read_text())["best"]["recall@8"]
    _, test = profs.datasets.load("emoji")
    queries = np.random.default_rng(0).choice(len(test), NUM_QUERIES, replace=False)
    found = share_found(site, tmp_path, test, queries)
    print(f"found {found:.3f}, Recall@8 {recall:.3f}")
    assert found > recall - 0.02
    with Image.open(tmp_path / "found.png") as strip:
        assert strip.size[0] > 8 * 100
