"""Which part of PROFS changes the results, and a verdict per loss."""

from __future__ import annotations

from collections.abc import Callable

from grid_report.data import ReportData
from grid_report.statistics import Estimate, significant_together
from grid_report.tables import (
    LAST_RECALL,
    NOT_RUN,
    VARIANT_NAMES,
    Table,
    difference,
    last_note,
    settings_of,
)
from grid_runs.grid_file import DEFAULT_SETTING

# A part -> (the variant that has it, those without it: the first that the grid files define for the loss).
# From selection to mining they are the steps from the baseline to PROFS + HNCM; the last three stand alone.
PARTS = {
    "selection": ("selection", ("baseline",)),
    "representatives": ("representatives", ("selection", "baseline")),
    "reuse": ("reuse", ("representatives",)),
    "pull": ("profs", ("reuse",)),
    "mining": ("profs_hncm", ("profs",)),
    "pull alone": ("pull", ("baseline",)),
    "M = 1, no pull": ("representatives", ("baseline",)),
    "all but selection": ("profs", ("selection",)),
}
_PARTS_NOTE = (
    "Percentage points; runs with the same seed are paired; mean ± half of the 95 % interval (Student's t). "
    "selection: each image of an ordinary batch takes its own hardest negatives. representatives: only one "
    "image per class acts as a query, drawn anew for every batch. reuse: for M batches the same one. pull: "
    "the proximal penalty, in PROFS; alone: on ordinary batches. mining: HNCM. M = 1, no pull: selection and "
    "representatives together. all but selection: representatives, reuse and pull together."
)
_MARK = " *"
_MARK_NOTE = " *: it differs from 0 after Holm's correction for the rows of its column, too."
HELPS, HURTS, UNDECIDED = "helps", "hurts", "undecided at this power"


def part_differences(data: ReportData, variants: dict, label: str, metric: str, setting: str = "") -> list:
    """Returns (part, text of the difference, `statistics.Estimate` or None) of the parts that a loss has.

    A difference that is two parts for a loss without `selection` is there once.

    Args:
        data: The results.
        variants: Those of the loss, an entry of `data.families`.
        label: The data set.
        metric: Name of the metric.
        setting: Values of the axes.
    """
    found = []
    for part, (one, others) in PARTS.items():
        other = next((variant for variant in others if variant in variants), None)
        if one in variants and other is not None:
            text = f"{_name(one)} - {_name(other)}"
            if any(text == earlier for _, earlier, _ in found):
                continue
            found.append((part, text, difference(data, variants, label, metric, one, other, setting)))
    return found


def is_decomposed(differences: list) -> bool:
    """Returns whether more than class mining was run, of which the other tables tell."""
    return any(found for part, _, found in differences if part != "mining")


def decomposition_table(data: ReportData, label: str) -> Table:
    """Returns what each part of PROFS changes, of the losses and settings with runs of such parts."""
    metrics = [name for name in ("R@1", LAST_RECALL, "NMI", "F1") if name in data.metrics(label)]
    names, found = [], []
    for family, variants in data.families.items():
        for setting in settings_of(data, label, variants.values()):
            by_metric = [part_differences(data, variants, label, metric, setting) for metric in metrics]
            if not metrics or not is_decomposed(by_metric[0]):
                continue
            for of_metrics in zip(*by_metric):
                part, text, _ = of_metrics[0]
                names.append([family.replace("_", " "), setting or DEFAULT_SETTING, part, text])
                found.append([item for *_, item in of_metrics])
    rows = _rows(names, found, lambda item: item.text(signed=True))
    header = ["loss", "setting", "part", "difference", "pairs", *metrics]
    title = f"{label}: which part of PROFS changes the results"
    return Table(
        title,
        _PARTS_NOTE + _MARK_NOTE + last_note(metrics),
        header,
        rows or [[NOT_RUN] * len(header)],
        bool(rows),
    )


def verdict_table(data: ReportData, label: str) -> Table:
    """Returns per loss whether PROFS, without and with class mining, helps, hurts, or neither is shown."""
    metrics = [name for name in ("R@1", LAST_RECALL) if name in data.metrics(label)]
    compared = [(variant, metric) for variant in ("profs", "profs_hncm") for metric in metrics]
    names, found = [], []
    for family, variants in data.families.items():
        for setting in settings_of(data, label, variants.values()):
            ours = [
                difference(data, variants, label, metric, variant, "baseline", setting)
                for variant, metric in compared
            ]
            if any(ours):
                names.append([family.replace("_", " "), setting or DEFAULT_SETTING])
                found.append(ours)
    rows = _rows(names, found, verdict)
    header = ["loss", "setting", "pairs"]
    header += [f"{_name(variant)} - baseline, {metric}" for variant, metric in compared]
    note = (
        "Helps or hurts: the 95 % interval of the paired difference is above or below 0. Each interval "
        "stands alone: of twenty such statements about no effect, one is expected to be wrong."
        + _MARK_NOTE
        + last_note(metrics)
    )
    title = f"{label}: does PROFS help?"
    return Table(title, note, header, rows or [[NOT_RUN] * len(header)], bool(rows))


def _rows(names: list, found: list, text_of: Callable[[Estimate], str]) -> list:
    """Returns names, the most pairs, and texts of rows of `Estimate` or None, marked by column."""
    marked = zip(*(significant_together(list(column)) for column in zip(*found)))
    return [
        [
            *of_row,
            str(max((item.count for item in items if item), default=0)),
            *(
                (text_of(item) if item else NOT_RUN) + (_MARK if mark else "")
                for item, mark in zip(items, marks)
            ),
        ]
        for of_row, items, marks in zip(names, found, marked)
    ]


def verdict(found: Estimate) -> str:
    """Returns "helps: +1.37 ± 0.24", by the interval of a difference; undecided without an interval."""
    word = UNDECIDED
    if found.half_width is not None and abs(found.mean) > found.half_width:
        word = HELPS if found.mean > 0 else HURTS
    return f"{word}: {found.text(signed=True)}"


def _name(variant: str) -> str:
    return VARIANT_NAMES.get(variant, variant)
