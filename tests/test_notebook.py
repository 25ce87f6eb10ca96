"""The notebook runs from top to bottom, and what is saved in it came of a run."""

import json
import warnings
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

import profs_tf as profs

NOTEBOOK = json.loads((Path(__file__).parent.parent / "docs/emoji.ipynb").read_text("utf-8"))
CODE = ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
# As it stands, but for how long it trains on how much.
SHORTER = (
    ('profs.datasets.load("emoji")', "few_emoji"),
    ("epochs=5", "epochs=2"),
    ("steps_per_epoch=60", "steps_per_epoch=2"),
)


@pytest.fixture
def pictures_drawn(monkeypatch):
    """Counts what would be shown; draws it, without a window."""
    drawn = []

    def show():
        plt.gcf().canvas.draw()
        drawn.append(len(plt.gcf().axes))
        plt.close("all")

    backend, settings = matplotlib.get_backend(), dict(plt.rcParams)
    plt.switch_backend("agg")
    monkeypatch.setattr(plt, "show", show)
    yield drawn
    plt.switch_backend(backend)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plt.rcParams.update(settings)


def test_it_runs(pictures_drawn, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = "\n".join(CODE)
    for before, after in SHORTER:
        assert before in code
        code = code.replace(before, after)
    names = {"few_emoji": tuple(part.take(np.arange(350)) for part in profs.datasets.load("emoji"))}
    exec(compile(code, "docs/emoji.ipynb", "exec"), names)  # the code is this project's own
    assert pictures_drawn == [4 * 6, 2 * 8, 2, 5 * 8]
    assert int(names["model"].step) == 4
    assert f"{100 * names['report']['recall@1']:.2f}" in capsys.readouterr().out
    assert (tmp_path / "emoji_embedder/saved_model.pb").exists()


def test_its_figures_are_saved_with_it():
    outputs = [output for cell in NOTEBOOK["cells"] for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 4
    assert not any(output["output_type"] == "error" or output.get("name") == "stderr" for output in outputs)
    text = "".join("".join(output.get("text", "")) for output in outputs)
    assert "4,281 drawings of 561 emoji to train on" in text
    assert "recall@1" in text
