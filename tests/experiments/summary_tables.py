"""The two tables of docs/RESULTS.md, from the committed figures: PROFS per loss, and by which part."""

from grid_report import decomposition
from grid_report.data import ReportData
from grid_report.page import markdown_table
from grid_report.tables import NOT_RUN, Table

from tests.experiments.grid_configs import ROOT

# Column -> results.
SETTINGS = {
    "whitened head": "cars_part_whitened",
    "whole network": "cars_part_finetune",
    "head from random weights": "cars_part_head",
}
_UNDECIDED = "undecided at this power"


def data_of(name):
    folder = ROOT / "experiments"
    return ReportData(
        folder / f"results/{name}.csv", ROOT / "no runs", folder / "paper_results.csv", folder / "grids"
    )


def per_loss():
    """Helps, hurts or undecided: PROFS - baseline, best Recall@1, of the default setting."""
    return _summary(
        decomposition.verdict_table, lambda row: (row[0],), "PROFS - baseline, R@1", lambda row: int(row[2])
    )


def by_part():
    """The difference that each part makes in the best Recall@1, of the default setting."""
    return _summary(
        decomposition.decomposition_table, lambda row: (row[0], row[2]), "R@1", lambda row: int(row[4])
    )


def _summary(kind, key_of, column, pairs_of):
    columns, counts = {}, {}
    for setting, name in SETTINGS.items():
        data = data_of(name)
        table = kind(data, data.labels[0])
        rows = [row for row in table.rows if table.is_run and row[1] == decomposition.DEFAULT_SETTING]
        if rows:
            columns[setting] = {key_of(row): row[table.header.index(column)] for row in rows}
            counts[setting] = sorted({pairs_of(row) for row in rows if pairs_of(row)})
    keys = list(dict.fromkeys(key for cells in reversed(columns.values()) for key in cells))
    header = ["loss", "part"][: len(keys[0])]
    header += [f"{setting}, {_span(counts[setting])}" for setting in columns]
    cells = [[of_column.get(key, NOT_RUN) for of_column in columns.values()] for key in keys]
    rows = [[*key, *(cell.replace(_UNDECIDED, "undecided") for cell in row)] for key, row in zip(keys, cells)]
    return markdown_table(Table("", "", header, rows, True))


def _span(counts):
    if counts[-1] == 1:
        return "1 seed"
    return f"{counts[0]} seeds" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"
