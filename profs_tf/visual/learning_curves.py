"""The learning curves of a run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Union


def draw_learning_curves(
    rows: Sequence[Mapping[str, Union[str, float]]], path: Path, evaluated: str = "evaluated"
) -> None:
    """Draws loss, recall, penalty and mean pairwise distance over the steps into a PNG.

    Args:
        rows: Of the run's log, with numbers or their text; an empty text is a missing figure.
        path: The PNG file.
        evaluated: Which classes the recall is of, such as "test" or "validation"; for its title.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Unlike pyplot, this needs no window system and changes no global state.
    figure = Figure(figsize=(11, 7), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 2, sharex=True).flat
    recalls = [name for name in _names(rows) if name.startswith("recall@")]
    clustering = [name for name in _names(rows) if name in ("nmi", "f1")]
    panels = [
        ("Loss", ["loss"], 1.0, None),
        (f"Recall@K on {evaluated} classes, %", recalls + clustering, 100.0, None),
        ("Proximal penalty", ["proximal_penalty"], 1.0, None),
        ("Mean distance between images", ["mean_pairwise_distance"], 1.0, (0, None)),
    ]
    for axis, (title, names, factor, limits) in zip(axes, panels):
        for name in names:
            steps, values = _series(rows, name)
            axis.plot(steps, [factor * value for value in values], marker=".", label=name)
        axis.set_title(title)
        axis.grid(alpha=0.3)
        if limits:
            axis.set_ylim(*limits)
        if len(names) > 1:
            # Beside the panel, where it hides no curve.
            axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    for axis in list(figure.axes)[2:]:
        axis.set_xlabel("step")
    figure.savefig(path, dpi=120)


def _names(rows: Sequence[Mapping[str, Union[str, float]]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _series(rows: Sequence[Mapping[str, Union[str, float]]], name: str) -> tuple[list[int], list[float]]:
    """Returns the steps and values of the rows that have the figure."""
    present = [row for row in rows if row.get(name) not in (None, "")]
    return [int(row["step"]) for row in present], [float(row[name]) for row in present]
