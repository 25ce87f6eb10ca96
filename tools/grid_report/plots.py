"""The report's pictures, as PNG, for a light and a dark page."""

from __future__ import annotations

import io
import itertools
import math

from grid_report.data import VARIANTS, ReportData
from grid_report.decomposition import PARTS, is_decomposed, part_differences
from grid_report.statistics import Estimate, estimate
from grid_report.tables import (
    AXES,
    DIFFERENCES,
    MEAN_OF_LOSSES,
    VARIANT_NAMES,
    curve_rows,
    difference,
    mean_difference,
)
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

# Colors that remain distinct under color blindness (Okabe and Ito, 2008), then foreground and background.
THEMES = {
    "light": (("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#7A5C00"), "#222222", "#ffffff"),
    "dark": (("#56B4E9", "#E69F00", "#2FCFA0", "#E39AC4", "#F0E442"), "#dddddd", "#16181c"),
}
_SIZE = (6.0, 4.0)
_DPI = 110


class Picture:
    """A figure with one axis in the colors of a theme."""

    def __init__(self, theme: str, title: str, height: float = _SIZE[1]):
        """Creates an empty axis."""
        self.colors, ink, paper = THEMES[theme]
        self.ink = ink
        # Without pyplot no window system is needed and no global state changes.
        self._figure = Figure(figsize=(_SIZE[0], height), layout="constrained", facecolor=paper)
        FigureCanvasAgg(self._figure)
        self.axis = self._figure.subplots()
        self.axis.set_facecolor(paper)
        self.axis.set_title(title, color=ink)
        self.axis.tick_params(colors=ink)
        for spine in self.axis.spines.values():
            spine.set_color(ink)
        self.axis.grid(alpha=0.25)

    def png(self, x_label: str, y_label: str = "", legend: bool = True) -> bytes:
        """Returns the finished picture."""
        self.axis.set_xlabel(x_label, color=self.ink)
        self.axis.set_ylabel(y_label, color=self.ink)
        if legend:
            # Below the axis, where it hides no point.
            self.axis.legend(
                loc="upper center",
                bbox_to_anchor=(0.5, -0.14),
                ncol=3,
                facecolor="none",
                edgecolor="none",
                labelcolor=self.ink,
            )
        file = io.BytesIO()
        self._figure.savefig(file, dpi=_DPI, format="png", metadata={"Software": None})
        return file.getvalue()


def learning_curves(data: ReportData, family: str, label: str, theme: str):
    """Returns a plot of Recall@1 against steps, a line per seed and variant and their mean; or None."""
    picture, drawn = Picture(theme, f"{family.replace('_', ' ')}, {label}"), False
    for color, variant in zip(picture.colors, VARIANTS):
        row = data.families[family].get(variant)
        runs = dict.fromkeys(line["run"] for line in data.matching(row, label)) if row else {}
        curves = [curve for curve in (_recall_curve(data.log(run)) for run in runs) if curve]
        for curve in curves:
            picture.axis.plot(list(curve), list(curve.values()), color=color, alpha=0.3, linewidth=0.8)
        if curves:
            drawn = True
            steps = sorted(set.intersection(*(set(curve) for curve in curves)))
            means = [sum(curve[step] for curve in curves) / len(curves) for step in steps]
            picture.axis.plot(steps, means, color=color, linewidth=2, label=VARIANT_NAMES[variant])
    return picture.png("step", "Recall@1, %") if drawn else None


def _recall_curve(log: list) -> dict:
    return {int(row["step"]): 100 * float(row["recall@1"]) for row in log if "recall@1" in row}


def differences(data: ReportData, label: str, theme: str):
    """Returns a plot of paired differences of Recall@1 with intervals, per loss and in the mean; or None."""
    found = []
    for place, (_, one, other) in enumerate(DIFFERENCES):
        found += [
            (family.replace("_", " "), place, difference(data, variants, label, "R@1", one, other))
            for family, variants in data.families.items()
        ]
        found.append((MEAN_OF_LOSSES, place, mean_difference(data, label, "R@1", one, other)))
    found = [item for item in found if item[2]]
    if not found:
        return None
    drawn = {name for name, _, _ in found}
    names = [family.replace("_", " ") for family in data.families]
    names = [name for name in [*names, MEAN_OF_LOSSES] if name in drawn]
    picture = Picture(theme, f"Change of Recall@1, {label}", height=1.4 + 0.5 * len(names))
    for place, (text, *_) in enumerate(DIFFERENCES):
        items = [(names.index(name), mean) for name, its_place, mean in found if its_place == place]
        if items:
            picture.axis.errorbar(
                [mean.mean for _, mean in items],
                [-line - 0.2 * place for line, _ in items],
                xerr=[_bar(mean) for _, mean in items],
                fmt="o",
                capsize=3,
                color=picture.colors[place + 1],
                label=text,
            )
    picture.axis.axvline(0.0, color=picture.ink, linewidth=1)
    picture.axis.set_yticks([-line - 0.1 for line in range(len(names))], names)
    return picture.png("percentage points, 95 % interval")


def parts(data: ReportData, label: str, theme: str):
    """Returns a plot of what each part of PROFS changes in Recall@1, per loss, with intervals; or None."""
    found = {}
    for family, variants in data.families.items():
        differences_by_part = part_differences(data, variants, label, "R@1")
        if is_decomposed(differences_by_part):
            found[family] = {part: mean for part, _, mean in differences_by_part if mean}
    if not found:
        return None
    picture = Picture(
        theme, f"Change of Recall@1 by part, {label}", height=1.4 + 0.22 * len(PARTS) * len(found)
    )
    space = len(PARTS) + 1
    for number, (part, color) in enumerate(zip(PARTS, itertools.cycle(picture.colors))):
        items = [(place, means[part]) for place, means in enumerate(found.values()) if part in means]
        if items:
            picture.axis.errorbar(
                [mean.mean for _, mean in items],
                [-place * space - number for place, _ in items],
                xerr=[_bar(mean) for _, mean in items],
                fmt="os"[number >= len(picture.colors)],
                capsize=3,
                color=color,
                label=part,
            )
    picture.axis.axvline(0.0, color=picture.ink, linewidth=1)
    places = [-place * space - (len(PARTS) - 1) / 2 for place in range(len(found))]
    picture.axis.set_yticks(places, [family.replace("_", " ") for family in found])
    return picture.png("percentage points, 95 % interval")


def _bar(found: Estimate) -> float:
    """Returns half of an interval's width; NaN, which draws no bar, if there is no interval."""
    return math.nan if found.half_width is None else found.half_width


def curves_along(data: ReportData, axis: str, label: str, theme: str):
    """Returns a plot of Recall@1 of each loss along an axis of settings, on a data set; or None.

    M has a logarithmic axis that marks the rule's M and shows "never" to the right of all others; the values
    of lambda, which include 0, are evenly spaced.
    """
    curves = [item for item in curve_rows(data, axis) if item[2] == label]
    if not curves:
        return None
    picture = Picture(theme, f"Recall@1 against {axis}, {label} ({AXES[axis][1]} of the paper)")
    texts = {value: text for *_, points in curves for value, text, _, _ in points}
    places = _log_places(texts) if axis == "M" else {value: i for i, value in enumerate(sorted(texts))}
    for number, (family, _, _, points) in enumerate(curves):
        picture.axis.errorbar(
            [places[value] for value, *_ in points],
            [found.mean for _, _, found, _ in points],
            yerr=[_bar(found) for _, _, found, _ in points],
            marker="o",
            capsize=3,
            color=picture.colors[number % len(picture.colors)],
            label=family.replace("_", " "),
        )
    if axis == "M":
        picture.axis.set_xscale("log")
        picture.axis.minorticks_off()
        rules = {value for *_, points in curves for value, _, _, is_default in points if is_default}
        for value in rules:
            picture.axis.axvline(
                value, color=picture.ink, linestyle=":", label=f"rule, rho = 6: M = {value:g}"
            )
    picture.axis.set_xticks([places[value] for value in sorted(texts)], [texts[v] for v in sorted(texts)])
    means = [found.mean for *_, points in curves for _, _, found, _ in points]
    if math.isclose(min(means), max(means)):
        picture.axis.margins(y=0.5)
    return picture.png(axis, "Recall@1, %")


def _log_places(texts: dict) -> dict:
    """Returns the position of each M on the axis."""
    largest = max((value for value, text in texts.items() if text != "never"), default=1.0)
    return {value: 3 * largest if text == "never" else value for value, text in texts.items()}


def cost(data: ReportData, label: str, theme: str):
    """Returns a plot of milliseconds per step, by method; or None."""
    rows = [row for family in data.families.values() for row in family.values()]
    found = []
    for row in rows:
        of_runs = {line["run"]: line["step_milliseconds"] for line in data.matching(row, label)}
        mean = estimate([float(text) for text in of_runs.values() if text])
        if mean:
            found.append((row[1], mean))
    if not found:
        return None
    picture = Picture(theme, f"Cost of a step, {label}", height=1.2 + 0.27 * len(found))
    places = [-number for number in range(len(found))]
    picture.axis.barh(places, [mean.mean for _, mean in found], color=picture.colors[0])
    picture.axis.set_yticks(places, [name for name, _ in found])
    return picture.png("milliseconds, wall clock", legend=False)
