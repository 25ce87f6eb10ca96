"""The pages of results say what the committed figures say."""

import re

import pytest
from grid_report import decomposition, tables
from grid_report.page import markdown_table
from grid_report.statistics import paired_difference

from tests.experiments import summary_tables
from tests.experiments.grid_configs import ROOT
from tests.experiments.summary_tables import data_of

DOCS = ROOT / "docs"
OF_CARS = (
    tables.recall_table,
    decomposition.verdict_table,
    tables.difference_table,
    decomposition.decomposition_table,
)
# Page -> results -> tables that it shows of them; of results by which values were chosen it has a summary.
SHOWN = {
    "results_on_cars": {
        "cars_part_whitened": OF_CARS,
        "cars_part_head": OF_CARS,
        "cars_part_finetune": OF_CARS,
        "cars_part_overfit": (
            tables.recall_table,
            decomposition.verdict_table,
            decomposition.decomposition_table,
        ),
        "cars_part_hncm": (tables.recall_table,),
        "cars_part_small_batch": (tables.recall_table, decomposition.verdict_table),
    },
    "results_on_emoji": {
        "emoji": (tables.recall_table,),
        "emoji_power": (tables.recall_table, decomposition.verdict_table),
        "emoji_regimes": (tables.recall_table,),
    },
}


def text_of(page):
    return (DOCS / f"{page}.md").read_text("utf-8")


@pytest.mark.parametrize("name", sorted({name for shown in SHOWN.values() for name in shown}))
def test_figures_are_of_committed_code(name):
    data = data_of(name)
    assert data.lines
    assert not any("+changes" in line["commit"] for line in data.lines)


@pytest.mark.parametrize(("page", "name"), [(page, name) for page in SHOWN for name in SHOWN[page]])
def test_tables_are_those_of_the_report(page, name):
    data, text = data_of(name), text_of(page)
    shown = [kind(data, label) for kind in SHOWN[page][name] for label in data.labels]
    shown += [table for table in (tables.curve_table(data, axis) for axis in tables.AXES) if table.is_run]
    for table in shown:
        assert markdown_table(table) in text, f"docs/{page}.md lacks the table\n{markdown_table(table)}"


def test_the_first_page_sums_them_up():
    for table in (summary_tables.per_loss(), summary_tables.by_part()):
        assert table in text_of("RESULTS"), f"docs/RESULTS.md lacks the table\n{table}"


def test_no_setting_of_mining_differs_from_the_default_or_beats_profs():
    data = data_of("cars_part_hncm")
    compared = []
    for loss in ("contrastive", "margin"):
        rows = data.families[loss]
        unmined, default = (
            data.by_seed(rows[name], "CARS196-part", "R@1") for name in ("profs", "profs_hncm")
        )
        for setting in tables.settings_of(data, "CARS196-part", [rows["profs_hncm"]])[1:]:
            mined = data.by_seed(rows["profs_hncm"], "CARS196-part", "R@1", setting)
            found = paired_difference(mined, default)
            assert found.count == 5
            assert abs(found.mean) < min(found.half_width, 0.305)
            gain = paired_difference(mined, unmined)
            assert gain.mean < gain.half_width
            compared.append(setting)
    assert len(compared) == 10


def test_the_mean_of_the_losses_is_the_report_s():
    shown = (("results_on_emoji", "emoji"), ("RESULTS", "cars_part_whitened"), ("RESULTS", "cars_part_head"))
    for page, name in shown:
        data, text = data_of(name), " ".join(text_of(page).split())
        for label in data.labels:
            for row in tables.difference_table(data, label).rows[-2:]:
                if row[3] != tables.NOT_RUN:
                    in_second_place = f", {row[3]} from random weights" in text
                    assert f"{row[1]} in the mean of the losses: {row[3]}" in text or in_second_place


def test_pictures_are_there():
    for page in ("RESULTS", *SHOWN):
        names = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text_of(page))
        assert names or page == "results_on_cars"
        assert all((DOCS / name).is_file() for name in names)
