"""The hints of the public names: what a type checker tells a user of the package."""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from profs_tf import BatchSampler, MinedBatchSampler, PlateauBatchSampler
from profs_tf.metrics.scores import evaluate, evaluate_in_full

ROOT = Path(__file__).parents[1]

# What is imported is not reported on, as where the package is installed. Reading the libraries that no public
# hint names would take most of the time.
SETTINGS = """[mypy]
follow_imports = silent
cache_dir = cache
[mypy-PIL.*,absl.*,matplotlib.*]
follow_imports = skip
"""

RIGHT = """
from pathlib import Path
from typing import Optional

import numpy as np

import profs_tf as profs

train, test = profs.datasets.load("emoji")
sizes: np.ndarray = train.subset_of_classes([0, 2]).class_sizes
own: profs.datasets.ImageList = profs.datasets.list_folder(Path("pictures"))
listed = profs.datasets.ImageList.from_labels(["a.jpg", "b.jpg"], ["cat", "dog"])

sampler: profs.BatchSampler = profs.BatchSampler(train.labels, batch_size=128, images_per_class=2, seed=0)
named = profs.BatchSampler(["cat", "cat", "dog", "dog"], 4)
mined = profs.MinedBatchSampler(train.labels, 64, queries="all", lag=2)
for batch in mined:
    step: int = batch.step
    mask: np.ndarray = batch.is_representative

embedder = profs.build_embedder("inception_v1", embedding_dim=512, input_size=None)
loss: profs.losses.MetricLoss = profs.losses.MarginLoss(boundary_per_class=True, num_classes=3)
other: profs.losses.MetricLoss = profs.losses.get("contrastive")
model = profs.ProfsModel(embedder, proximal_weight=1e-3, name="trained")
model.compile(optimizer=profs.head_adam(embedder, 1e-4, head_multiplier=10.0), loss=loss)
recall = profs.RecallCallback(test, ks=(1, 2, 4, 8), preprocessing=profs.Preprocessing(crop=200))
model.fit(profs.train_pipeline(train, sampler), epochs=2, callbacks=[profs.ProfsCallback(sampler), recall])
taken: int = model.steps_taken
best: dict[str, float] = recall.best

embeddings = np.zeros([4, 8], np.float32)
report: dict[str, float] = profs.metrics.evaluate(embeddings, ["a", "a", "b", "b"], ks=[1], map_at_r=True)
found = profs.metrics.evaluate_retrieval(embeddings, np.array([0, 0, 1, 1]), distance="cosine")
mean_precision: Optional[float] = found.map_at_r
recalls: dict[int, float] = profs.metrics.recall_at_k(embeddings, [0, 0, 1, 1], 1)
indices, distances = profs.metrics.nearest(embeddings, embeddings, 2, own=[0, 1, 2, 3])
furthest: float = distances[:, -1].max()

profs.save_embedder(embedder, profs.Preprocessing(), Path("embedder"))
index = profs.ImageIndex.build(Path("pictures"), "embedder", "pictures.index", skip_unreadable=True)
for neighbor in index.query([Path("one.jpg"), "two.jpg", np.zeros([8, 8, 3], np.uint8)], k=3)[0]:
    line: str = f"{neighbor.name} {neighbor.distance:.3f} {neighbor.class_name or 'unknown'}"
version: str = profs.__version__
"""

# Each with the code of the error that is to be reported for its line.
WRONG = {
    'profs.BatchSampler([0, 1], batch_size="many")': "arg-type",
    "profs.BatchSampler(3)": "arg-type",
    "profs.BatchSampler([0, 1], batchsize=2)": "call-arg",
    'profs.MinedBatchSampler([0, 1], representative_uses="six")': "arg-type",
    "profs.metrics.evaluate(None, [0, 1])": "arg-type",
    "profs.metrics.evaluate(np.eye(2), [0, 1], ks=1)": "arg-type",
    "profs.metrics.evaluate(np.eye(2), [0, 1], clusters=True)": "call-arg",
    'profs.metrics.evaluate(np.eye(2), [0, 1])["nmi"].best': "attr-defined",
    "profs.metrics.recall_at_k(np.eye(2), None)": "arg-type",
    "profs.metrics.nearest(np.eye(2), np.eye(2))": "call-arg",
    "profs.build_embedder(embedding_dim=0.5)": "arg-type",
    'profs.ProfsModel(None, proximal_weight="strong")': "arg-type",
    'profs.ProfsModel(None).compile("adam", loss="margin")': "arg-type",
    "profs.ProfsCallback(np.eye(2))": "arg-type",
    'profs.RecallCallback("test")': "arg-type",
    'profs.Preprocessing(resize="256")': "arg-type",
    "profs.train_pipeline([], profs.BatchSampler([0, 1]))": "arg-type",
    "profs.losses.TripletLoss(size=2)": "call-arg",
    "profs.losses.get(3)": "arg-type",
    "profs.datasets.load(3)": "arg-type",
    'profs.datasets.load("emoji").train': "attr-defined",
    'profs.ImageIndex.load("x").query("x", k="all")': "arg-type",
    'profs.ImageIndex.load("x").query(["x"])[0].distance': "attr-defined",
    "profs.save_embedder(None, profs.Preprocessing(), 3)": "arg-type",
    "profs.ProfModel(None)": "attr-defined",
}


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    """Of a right and a wrong program, checked together: line to the codes of its errors, by name."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "right.py").write_text(RIGHT.strip() + "\n", "utf-8")
    (folder / "wrong.py").write_text(
        "\n".join(["import numpy as np", "import profs_tf as profs", *WRONG]) + "\n", "utf-8"
    )
    (folder / "mypy.ini").write_text(SETTINGS, "utf-8")
    errors = {"right.py": {}, "wrong.py": {}}
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--allow-any-generics", "--no-error-summary", *errors],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        check=False,
    )
    assert done.stderr == ""
    for line in done.stdout.splitlines():
        found = re.fullmatch(r"(\w+\.py):(\d+): error: .*\[([\w-]+)\]", line)
        if found:
            errors[found.group(1)].setdefault(int(found.group(2)), []).append(found.group(3))
        else:
            assert ": note: " in line, line
    return errors


def test_right_program_passes(reported):
    lines = RIGHT.strip().splitlines()
    assert {lines[number - 1]: codes for number, codes in reported["right.py"].items()} == {}


def test_wrong_lines_are_reported_each_by_its_error(reported):
    lines = ["", "", *WRONG]
    assert {lines[number - 1]: codes for number, codes in reported["wrong.py"].items()} == {
        line: [code] for line, code in WRONG.items()
    }


def test_package_says_that_it_has_types():
    assert (ROOT / "profs_tf/py.typed").is_file()
    assert '"py.typed"' in (ROOT / "setup.py").read_text("utf-8")


@pytest.mark.parametrize(
    ("one", "other", "left_out"),
    [
        # Mining draws the classes.
        (BatchSampler.__init__, MinedBatchSampler.__init__, {"class_draw"}),
        (BatchSampler.__init__, PlateauBatchSampler.__init__, set()),
        (evaluate, evaluate_in_full, set()),
    ],
)
def test_arguments_that_are_passed_on_have_the_same_defaults_and_hints(one, other, left_out):
    passed_on = {
        name: hint for name, hint in inspect.signature(one).parameters.items() if name not in left_out
    }
    accepted = inspect.signature(other).parameters
    assert {name: str(accepted[name]) for name in passed_on} == {
        name: str(parameter) for name, parameter in passed_on.items()
    }
    assert [accepted[name].kind for name in passed_on] == [parameter.kind for parameter in passed_on.values()]
