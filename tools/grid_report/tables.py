"""The report's tables: our results beside the paper's, paired differences, curves, cost, machines."""

from __future__ import annotations

import collections
import dataclasses

from grid_report.data import VARIANTS, ReportData
from grid_report.statistics import counts_text, estimate, paired_difference
from grid_runs.grid_file import DEFAULT_SETTING
from grid_runs.results import LAST_EVALUATIONS

NOT_RUN = "not run"
# The paper has no such result, or a time was not recorded.
UNKNOWN = "-"
VARIANT_NAMES = dict(zip(VARIANTS, ("baseline", "PROFS", "PROFS + HNCM")))
MEAN_OF_LOSSES = "mean of the losses"
# An axis of a grid -> the column of its values, and the figure of the paper that shows it.
AXES = {"M": ("steps_per_projection", "figure 2"), "lambda": ("proximal_weight", "figure 3")}
# Recall@1 as the mean over the last evaluations.
LAST_RECALL = f"R@1{LAST_EVALUATIONS}"
# Names of differences between two variants of a loss.
DIFFERENCES = (("PROFS - baseline", "profs", "baseline"), ("HNCM - PROFS", "profs_hncm", "profs"))


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of texts.

    Attributes:
        title: Its heading.
        note: Explanation for the reader.
        header: Column names.
        rows: Lists of texts, one per column.
        is_run: Whether any of it was run.
    """

    title: str
    note: str
    header: list
    rows: list
    is_run: bool = True


def main_table(data: ReportData, label: str) -> Table:
    """Returns one data set's results: ours and, if the paper has any, the paper's and the differences."""
    has_paper = label in data.paper_data_sets()
    metrics = data.metrics(label)
    header, rows = ["method", "seeds"], []
    for metric in metrics:
        header += [metric, "paper", "difference"] if has_paper else [metric]
    for row in data.rows(label):
        cells, counts = [], []
        for metric in metrics:
            ours = estimate(list(data.by_seed(row, label, metric).values()))
            cells.append(ours.text() if ours else NOT_RUN)
            counts += [ours.count] if ours else []
            if has_paper:
                paper = data.paper.get((*row, label, metric))
                cells.append(UNKNOWN if paper is None else f"{paper:.1f}")
                cells.append(_difference_from(ours, paper))
        rows.append([f"{row[1]} (table {row[0]})", str(max(counts, default=0)), *cells])
    note = "Percent, best epoch, mean over seeds ± half of the 95 % interval (Student's t)."
    note += last_note(metrics)
    title = f"{label}: ours" + (" and the paper's" if has_paper else "")
    return Table(title, note, header, rows, is_run=label in data.labels)


def last_note(metrics: list) -> str:
    """Returns what "last3" means, if one of the metrics is such a mean."""
    last = any(name.endswith(LAST_EVALUATIONS) for name in metrics)
    return " last3: in place of the best epoch, the mean over the last three evaluations." if last else ""


def _difference_from(ours, paper) -> str:
    if ours is None:
        return NOT_RUN
    return UNKNOWN if paper is None else f"{ours.mean - paper:+.2f}"


def difference_table(data: ReportData, label: str) -> Table:
    """Returns the gain of PROFS, and of class mining on top, per loss, paired by seed, beside the paper's."""
    wanted = ("R@1", LAST_RECALL, "NMI", "F1")
    metrics = [name for name in wanted if name in data.metrics(label)]
    paper_sets = data.paper_data_sets()
    header = ["loss", "difference", "pairs", *metrics, *(f"paper R@1 {name}" for name in paper_sets)]
    rows = []
    for family, variants in data.families.items():
        for text, one, other in DIFFERENCES:
            if one not in variants or other not in variants:
                continue
            ours = [difference(data, variants, label, metric, one, other) for metric in metrics]
            rows.append(
                [
                    family.replace("_", " "),
                    text,
                    *counts_and_texts(ours),
                    *(_paper_difference(data, variants[one], variants[other], name) for name in paper_sets),
                ]
            )
    for text, one, other in DIFFERENCES:
        ours = [mean_difference(data, label, metric, one, other) for metric in metrics]
        rows.append([MEAN_OF_LOSSES, text, *counts_and_texts(ours), *(UNKNOWN for _ in paper_sets)])
    note = (
        "Percentage points; runs with the same seed are paired; mean ± half of the 95 % interval. The mean "
        "of the losses is that of each seed that all losses have; its interval is over these seeds, too."
    ) + last_note(metrics)
    return Table(f"{label}: what PROFS and class mining change", note, header, rows)


def counts_and_texts(found: list) -> list:
    """Returns the largest number of pairs, then the text of each `statistics.Estimate` or None."""
    counts = [item.count for item in found if item]
    return [str(max(counts, default=0)), *(item.text(signed=True) if item else NOT_RUN for item in found)]


def difference(
    data: ReportData, variants: dict, label: str, metric: str, one: str, other: str, setting: str = ""
):
    """Returns the paired difference of two variants of a loss (`statistics.Estimate`), or None."""
    if one not in variants or other not in variants:
        return None
    return paired_difference(
        *(data.by_seed(variants[variant], label, metric, setting) for variant in (one, other))
    )


def mean_difference(data: ReportData, label: str, metric: str, one: str, other: str):
    """Returns the mean over the losses (`statistics.Estimate`) of seeds that all of them have, or None."""
    by_loss = []
    for variants in data.families.values():
        if one in variants and other in variants:
            ours, theirs = (data.by_seed(variants[name], label, metric) for name in (one, other))
            paired = {seed: ours[seed] - theirs[seed] for seed in ours if seed in theirs}
            by_loss += [paired] if paired else []
    shared = sorted(set.intersection(*(set(paired) for paired in by_loss))) if by_loss else []
    return estimate([sum(paired[seed] for paired in by_loss) / len(by_loss) for seed in shared])


def _paper_difference(data: ReportData, one: tuple, other: tuple, name: str) -> str:
    values = [data.paper.get((*row, name, "R@1")) for row in (one, other)]
    return UNKNOWN if None in values else f"{values[0] - values[1]:+.1f}"


def settings_of(data: ReportData, label: str, rows: list) -> list:
    """Returns the settings that any of the rows was run with, the default first, without those of curves."""
    on_axes = tuple(f"{axis}=" for axis in AXES)
    settings = {
        line["setting"]
        for line in data.lines
        if line["label"] == label and (line["table"], line["method"]) in rows
    }
    return sorted(setting for setting in settings if not setting.startswith(on_axes))


def recall_table(data: ReportData, label: str) -> Table:
    """Returns Recall@1 of each loss's variants side by side, for all settings but those of the curves."""
    metrics = [name for name in ("R@1", LAST_RECALL) if name in data.metrics(label)]
    rows = []
    for family, variants in data.families.items():
        shown = [variants[name] for name in VARIANTS if name in variants]
        for setting in settings_of(data, label, shown):
            recalls = [
                estimate(list(data.by_seed(variants[name], label, "R@1", setting).values()))
                if name in variants
                else None
                for name in VARIANTS
            ]
            changes = [
                difference(data, variants, label, metric, one, other, setting)
                for metric in metrics
                for _, one, other in DIFFERENCES
            ]
            rows.append(
                [
                    family.replace("_", " "),
                    setting or DEFAULT_SETTING,
                    counts_text(recalls),
                    *(found.text() if found else NOT_RUN for found in recalls),
                    *(found.text(signed=True) if found else NOT_RUN for found in changes),
                ]
            )
    header = ["loss", "setting", "seeds", *VARIANT_NAMES.values()]
    header += [text + metric[len("R@1") :] for metric in metrics for text, *_ in DIFFERENCES]
    note = "Percent and points, runs with the same seed are paired; mean ± half of the 95 % interval."
    note += last_note(metrics)
    return Table(f"{label}: Recall@1 of each loss", note, header, rows, is_run=bool(rows))


def curve(data: ReportData, row: tuple, label: str, axis: str) -> list:
    """Returns the points (value, text, `Estimate` of Recall@1, is the default setting) along an axis, sorted.

    Fewer than two settings give no curve: []. An M beyond the number of trained steps is shown as "never", at
    that number.
    """
    column, _ = AXES[axis]
    settings = dict.fromkeys(
        line["setting"]
        for line in data.lines
        if (line["table"], line["method"], line["label"]) == (*row, label)
        and (not line["setting"] or line["setting"].startswith(f"{axis}="))
        and ", " not in line["setting"]
    )
    points = []
    for setting in settings:
        line = data.matching(row, label, setting)[0]
        value, text = float(line[column]), f"{float(line[column]):g}"
        if axis == "M" and value >= int(line["steps"]):
            value, text = float(line["steps"]), "never"
        found = estimate(list(data.by_seed(row, label, "R@1", setting).values()))
        if found:
            points.append((value, text, found, not setting))
    return sorted(points, key=lambda point: point[0]) if len(points) > 1 else []


def curve_rows(data: ReportData, axis: str) -> list:
    """Returns (family, row, label of the data set, points) of each curve along an axis."""
    found = [
        (family, variants["profs"], label, curve(data, variants["profs"], label, axis))
        for label in data.labels
        for family, variants in data.families.items()
        if "profs" in variants
    ]
    return [item for item in found if item[3]]


def curve_table(data: ReportData, axis: str) -> Table:
    """Returns the values of the curves along an axis."""
    rows = [
        [
            row[1],
            label,
            text + (" (rule)" if is_default and axis == "M" else ""),
            str(found.count),
            found.text(),
        ]
        for _, row, label, points in curve_rows(data, axis)
        for _, text, found, is_default in points
    ]
    title = f"Recall@1 against {axis} ({AXES[axis][1]} of the paper)"
    header = ["method", "data set", axis, "seeds", "R@1"]
    note = "Percent, mean ± half of the 95 % interval. The paper prints its curves without figures."
    return Table(title, note, header, rows or [[NOT_RUN] * len(header)], is_run=bool(rows))


def cost_table(data: ReportData, label: str) -> Table:
    """Returns the cost of a step and of a run, by method."""
    rows = []
    for variants in data.families.values():
        baseline = _mean_over_runs(data, variants.get("baseline"), label, "step_milliseconds")
        for variant in VARIANTS:
            if variant not in variants:
                continue
            step = _mean_over_runs(data, variants[variant], label, "step_milliseconds")
            processor = _mean_over_runs(data, variants[variant], label, "cpu_seconds")
            absent = UNKNOWN if data.matching(variants[variant], label) else NOT_RUN
            rows.append(
                [
                    variants[variant][1],
                    absent if step is None else f"{step:.0f}",
                    absent if step is None or baseline is None else f"{step / baseline:.2f}",
                    absent if processor is None else f"{processor:.0f}",
                ]
            )
    note = (
        "Milliseconds of wall time, median over epochs, which other work on the machine increases; processor "
        "seconds (user and system) of a whole run with its evaluations."
    )
    header = ["method", "ms per step", "relative to baseline", "processor s per run"]
    return Table(f"{label}: cost", note, header, rows)


def _mean_over_runs(data: ReportData, row, label: str, column: str):
    if row is None:
        return None
    of_runs = {line["run"]: line[column] for line in data.matching(row, label)}
    values = [float(text) for text in of_runs.values() if text]
    return sum(values) / len(values) if values else None


def machine_table(data: ReportData) -> Table:
    """Returns the commits and machines of the runs."""
    names = ("commit", "cpu", "cores", "tensorflow")
    runs = {line["run"]: tuple(line[name] for name in names) for line in data.lines}
    rows = [
        [found[0][:12] + ("+changes" if "+changes" in found[0] else ""), *found[1:], str(count)]
        for found, count in collections.Counter(runs.values()).items()
    ]
    header = ["commit", "processor", "cores", "TensorFlow", "runs"]
    title = "Commits and machines"
    return Table(title, "", header, rows or [[NOT_RUN] * len(header)], is_run=bool(rows))


def failure_table(data: ReportData) -> Table:
    """Returns the runs that failed."""
    rows = [
        [name, str(last["exit_code"]), next(iter(reversed(last.get("log_tail", []))), "")]
        for name, last in data.failures
    ]
    return Table("Failed runs", "", ["run", "exit code", "last line of its log"], rows)
