"""The table of docs/choosing_a_method.md says what the committed figures say."""

import csv

import pytest
from grid_report.statistics import estimate
from grid_runs.results import read_results

from tests.experiments.grid_configs import ROOT

PAGE = ROOT / "docs/choosing_a_method.md"
RESULTS = ROOT / "experiments/results"
# The page's name of a method -> table and method of its row, its loss in loss_costs.csv.
METHODS = {
    "contrastive": ("1", "Contrastive-Hard", "contrastive hard"),
    "contrastive, PROFS": ("1", "C-PROFS", "contrastive hard"),
    "triplet": ("1", "Triplet-Hard", "triplet hard"),
    "lifted structure": ("1", "Lifted", "lifted_structure"),
    "N-pair": ("1", "N-pair", "n_pair"),
    "angular": ("1", "Angular", "angular"),
    "margin": ("1", "Margin-Hard", "margin hard"),
    "margin, PROFS": ("1", "M-PROFS", "margin hard"),
    "multi-similarity": ("1", "MS", "multi_similarity"),
    "multi-similarity, PROFS": ("1", "MS-PROFS", "multi_similarity"),
    "SoftTriple": ("2", "SoftTriple", "soft_triple"),
    "SoftTriple, PROFS": ("2", "SoftTriple-PROFS", "soft_triple"),
    "Proxy-NCA": ("rivals", "Proxy-NCA", "proxy_nca"),
    "Proxy-Anchor": ("rivals", "Proxy-Anchor", "proxy_anchor"),
    "normalized softmax": ("rivals", "Normalized softmax", "norm_softmax"),
    "CosFace": ("rivals", "CosFace", "cos_face"),
    "ArcFace": ("rivals", "ArcFace", "arc_face"),
    "SupCon": ("rivals", "SupCon", "sup_con"),
    "XBM, contrastive": ("rivals", "XBM (contrastive)", "contrastive hard, memory"),
    "CCP, contrastive": ("rivals", "CCP (contrastive)", "contrastive hard, CCP"),
}
GRIDS = {
    "CARS196-part-whitened": ("cars_part_whitened",),
    "emoji": ("emoji", "emoji_rivals"),
}
# Seeds that a quality is a mean over at the least: of the losses of the paper, and of the others.
SEEDS = {"CARS196-part-whitened": (10, 10), "emoji": (3, 3)}


def rows_of_page():
    """Returns the rows of the page's first table, lists of texts."""
    lines = PAGE.read_text("utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| method |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            return rows
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def recalls(label, table, method):
    """Returns Recall@1 of a method's runs on test classes, in the default setting, percent."""
    return [
        float(line["percent"])
        for name in GRIDS[label]
        for line in read_results(RESULTS / f"{name}.csv")
        if (line["table"], line["method"], line["dataset"], line["metric"], line["setting"], line["split"])
        == (table, method, label, "R@1", "", "test")
    ]


def costs(loss, queries):
    """Returns percent of an Inception V1 step and megabytes for 100 and for 11,318 classes, texts.

    Of a batch of 128 beside 32 images; with memory and prototypes of CCP of 32.
    """
    with open(RESULTS / "loss_costs.csv", newline="") as file:
        lines = [line for line in csv.DictReader(file) if (line["loss"], line["queries"]) == (loss, queries)]
    found = {}
    for line in lines:
        if loss.startswith("contrastive hard,") or line["embeddings"] == "128":
            found.setdefault(line["num_classes"], line)
    return [
        " / ".join(f"{float(found[classes][column]):.1f}" for classes in ("100", "11318"))
        for column in ("percent_of_backbone", "megabytes")
    ]


def test_the_table_has_every_method_once():
    assert sorted(row[0] for row in rows_of_page()) == sorted(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_cells_are_measured(name):
    (row,) = (row for row in rows_of_page() if row[0] == name)
    table, method, loss = METHODS[name]
    wanted = []
    for label, least in SEEDS.items():
        percents = recalls(label, table, method)
        assert len(percents) >= least[table == "rivals"]
        wanted.append(estimate(percents).text())
    is_profs = name.endswith("PROFS")
    assert row[1:5] == [*wanted, *costs(loss, "representatives" if is_profs else "all")]
    assert all(row[5:])


def test_figures_are_of_committed_code():
    for name in ("cars_part_whitened", "emoji_rivals"):
        assert not any("+changes" in line["commit"] for line in read_results(RESULTS / f"{name}.csv"))
