import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from profs_tf.visual.learning_curves import draw_learning_curves

ROWS = [
    {"epoch": "0", "step": "0", "recall@1": "0.25", "recall@8": "0.5", "nmi": "", "f1": ""},
    {"epoch": 1, "step": 10, "loss": 2.0, "proximal_penalty": 0.5, "recall@1": 0.5, "recall@8": 0.75},
    {"epoch": "2", "step": "20", "loss": "1.5", "proximal_penalty": "0.25", "nmi": "0.9", "f1": "0.3"},
]


@pytest.fixture
def figures(monkeypatch):
    """The figures that are saved, as Matplotlib's objects."""
    saved = []
    save = Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda self, *args, **kwargs: (saved.append(self), save(self, *args, **kwargs))
    )
    return saved


def test_draws_the_figures_of_the_log(figures, tmp_path):
    draw_learning_curves(ROWS, tmp_path / "curves.png")
    curves = {
        axis.get_title(): {line.get_label(): line.get_xydata().tolist() for line in axis.lines}
        for axis in figures[0].axes
    }
    assert curves["Loss"] == {"loss": [[10, 2.0], [20, 1.5]]}
    assert curves["Proximal penalty"] == {"proximal_penalty": [[10, 0.5], [20, 0.25]]}
    assert curves["Recall@K on evaluated classes, %"] == {
        "recall@1": [[0, 25.0], [10, 50.0]],
        "recall@8": [[0, 50.0], [10, 75.0]],
        "nmi": [[20, 90.0]],
        "f1": [[20, 30.0]],
    }
    assert curves["Mean distance between images"] == {"mean_pairwise_distance": []}
    with Image.open(tmp_path / "curves.png") as picture:
        assert picture.size == (1320, 840)
        assert np.asarray(picture.convert("L")).min() < 50


@pytest.mark.parametrize("evaluated", ["test", "validation"])
def test_recall_is_labeled_by_the_classes_that_are_evaluated(evaluated, figures, tmp_path):
    draw_learning_curves(ROWS, tmp_path / "curves.png", evaluated)
    assert figures[0].axes[1].get_title() == f"Recall@K on {evaluated} classes, %"
