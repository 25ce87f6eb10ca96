"""The page of results says what the committed figures say."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from grid_report import tables  # noqa: E402
from grid_report.data import ReportData  # noqa: E402
from grid_report.page import markdown_table  # noqa: E402

PAGE = ROOT / "docs/RESULTS.md"
RESULTS = ROOT / "experiments/results"
# Those whose tables are on the page; of those by which values were chosen it has a summary.
SHOWN = ("emoji", "emoji_regimes")


def data_of(path):
    folder = ROOT / "experiments"
    return ReportData(path, ROOT / "no runs", folder / "paper_results.csv", folder / "grids")


@pytest.mark.parametrize("name", SHOWN)
def test_figures_are_of_committed_code(name):
    data = data_of(RESULTS / f"{name}.csv")
    assert data.lines
    assert not any("+changes" in line["commit"] for line in data.lines)


@pytest.mark.parametrize("name", SHOWN)
def test_tables_are_those_of_the_report(name):
    data, text = data_of(RESULTS / f"{name}.csv"), PAGE.read_text("utf-8")
    shown = [tables.recall_table(data, label) for label in data.labels]
    shown += [table for table in (tables.curve_table(data, axis) for axis in tables.AXES) if table.is_run]
    for table in shown:
        assert markdown_table(table) in text, f"docs/RESULTS.md lacks the table\n{markdown_table(table)}"


def test_the_mean_of_the_losses_is_the_report_s():
    data, text = data_of(RESULTS / "emoji.csv"), PAGE.read_text("utf-8")
    for label in data.labels:
        for row in tables.difference_table(data, label).rows[-2:]:
            if row[3] != tables.NOT_RUN:
                assert f"{row[1]} in the mean of the losses: {row[3]}" in text


def test_pictures_are_there():
    names = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", PAGE.read_text("utf-8"))
    assert all((PAGE.parent / name).is_file() for name in names)
