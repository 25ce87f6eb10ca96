"""One new file and one registry line add a loss, and a backbone, as their guides in docs/ show them."""

import json
import re
import shutil
from pathlib import Path

import pytest

import profs_tf
from tests.helpers.forked_process import run_forked

DOCS = Path(__file__).parents[1] / "docs"
SIZE = "--image_resize=16 --embedding_dim=4 --batch_size=8 --epochs=1 --steps_per_epoch=2 --ks=1"
SHOWN = "--clustering=never --progress=none --tensorboard=none --output_dir=run"
# Trains by the copy in a folder: what the process has imported of the package is imported again from there.
TRAIN_WITH = """
import runpy, sys
import tensorflow as tf
for name in [name for name in sys.modules if name.partition(".")[0] == "profs_tf"]:
    del sys.modules[name]
tf.keras.utils.get_custom_objects().clear()
sys.path.insert(0, sys.argv[1])
import profs_tf
assert profs_tf.__file__.startswith(sys.argv[1])
sys.argv[1:] = sys.argv[2:]
runpy.run_module("profs_tf.train", run_name="__main__", alter_sys=True)
"""


@pytest.fixture
def package(tmp_path):
    """A copy of the package, to which a test adds files."""
    source = Path(profs_tf.__file__).parent
    ignored = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(source, tmp_path / source.name, ignore=ignored))


def add(package, guide, file, registry, before):
    """Adds the file that the guide shows, and its one line to the registry in front of a line."""
    text = (DOCS / f"{guide}.md").read_text("utf-8")
    blocks = dict(re.findall(r"```python\n# profs_tf/(\S+)\n(.*?)```", text, re.DOTALL))
    (line,) = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    assert line.count("\n") == 1
    (package / file).write_text(blocks[file], "utf-8")
    known = (package / registry).read_text("utf-8")
    assert known.count(before) == 1
    (package / registry).write_text(known.replace(before, line + before), "utf-8")


def test_a_new_loss_trains_a_new_backbone_by_the_command(package, tmp_path):
    triplet = "from profs_tf.losses.triplet import TripletLoss as TripletLoss\n"
    add(package, "own_loss", "losses/soft_contrastive.py", "losses/registry.py", triplet)
    add(package, "own_backbone", "backbones/mine.py", "backbones/__init__.py", '    "resnet50",\n')
    flags = f"--loss=soft_contrastive --soft_contrastive_near=0.25 --backbone=mine {SIZE} {SHOWN}"
    done = run_forked("-c", TRAIN_WITH, tmp_path, *flags.split(), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    weights = 9 * 3 * 16 + 9 * 16 * 32 + 4 * (16 + 32) + 32 * 4 + 4
    assert f"mine on CPU:0, {weights:,} weights" in done.stdout
    run = tmp_path / "run"
    assert json.loads((run / "metrics.json").read_text())["steps"] == 2
    config = json.loads((run / "config.json").read_text())
    assert (config["loss"], config["loss_options"]) == ("soft_contrastive", {"near": 0.25})
    untrained, trained = (run / "log.csv").read_text().splitlines()[1:]
    assert untrained != trained
