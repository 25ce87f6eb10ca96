"""The table of docs/choosing_a_method.md says what the committed figures say."""

import csv

import pytest
from grid_report.statistics import estimate, paired_difference
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
# The columns of the second table -> the data set and the setting of their runs, three seeds each.
CONDITIONS = {
    "batches of 16": ("CARS196-part-whitened", "condition=small_batch"),
    "20 classes": ("CARS196-part-whitened", "condition=few_classes"),
    "wrong labels": ("CARS196-part-wrong-labels", ""),
}
IN_CONDITIONS = (
    "contrastive",
    "contrastive, PROFS",
    "margin",
    "multi-similarity",
    "SoftTriple",
    "Proxy-Anchor",
    "normalized softmax",
    "SupCon",
    "XBM, contrastive",
)


def rows_of_page(table=0):
    """Returns the rows of one of the page's tables, lists of texts."""
    lines = PAGE.read_text("utf-8").splitlines()
    start = [number for number, line in enumerate(lines) if line.startswith("| method |")][table]
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            return rows
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def figures(names, label, method, metric="R@1", setting=""):
    """Returns a figure of a method's runs, percent."""
    return [
        float(line["percent"])
        for name in names
        for line in read_results(RESULTS / f"{name}.csv")
        if (line["table"], line["method"], line["dataset"], line["metric"], line["setting"])
        == (*method, label, metric, setting)
    ]


def recalls(label, table, method):
    """Returns Recall@1 of a method's runs on test classes, in the default setting, percent."""
    return figures(GRIDS[label], label, (table, method))


def in_condition(name, condition):
    """Returns Recall@1 of a method in a condition, a text: the best evaluation's, the last three's mean."""
    (label, setting), method = CONDITIONS[condition], METHODS[name][:2]
    best, last = (
        figures(["cars_part_conditions"], label, method, metric, setting) for metric in ("R@1", "R@1 last3")
    )
    assert len(best) == len(last) == 3
    return f"{estimate(best).text()} ({sum(last) / 3:.1f})"


def all_negatives():
    """Returns texts: Recall@1 of the contrastive loss with all negatives, with PROFS, what a memory adds."""

    def by_seed(method):
        return {
            int(line["seed"]): float(line["percent"])
            for line in read_results(RESULTS / "cars_part_whitened.csv")
            if (line["method"], line["metric"]) == (method, "R@1")
        }

    alone, profs, memory = map(by_seed, ("Contrastive (all)", "C-PROFS (all)", "XBM (contrastive)"))
    assert len(alone) == len(profs) == len(memory) == 10
    found = [estimate(list(percents.values())).text() for percents in (alone, profs)]
    return [*found, paired_difference(memory, alone).text(signed=True)]


def own_negatives():
    """Returns texts: Recall@1 of the margin and of the contrastive loss where each image has its own."""
    label = "CARS196-part-whitened"
    return [estimate(recalls(label, "1", method)).text() for method in ("M-selection", "C-selection")]


def costs(loss, queries):
    """Returns texts: percent of an Inception V1 step and megabytes for 100 / 11,318 classes, of 32 images."""
    with open(RESULTS / "loss_costs.csv", newline="") as file:
        found = {
            line["num_classes"]: line
            for line in csv.DictReader(file)
            if (line["loss"], line["queries"], line["embeddings"]) == (loss, queries, "32")
        }
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


@pytest.mark.parametrize("name", IN_CONDITIONS)
def test_figures_in_conditions_are_measured(name):
    (row,) = (row for row in rows_of_page(table=1) if row[0] == name)
    assert row[1:] == [in_condition(name, condition) for condition in CONDITIONS]


def test_the_text_has_what_a_memory_adds():
    words = " ".join(PAGE.read_text("utf-8").split())
    alone, profs, memory = all_negatives()
    assert f"without a memory, `--contrastive_mining=all` gives {alone} (with PROFS {profs};" in words
    assert f"and the memory adds {memory}." in words


def test_the_text_has_what_own_negatives_give():
    words = " ".join(PAGE.read_text("utf-8").split())
    margin, contrastive = own_negatives()
    assert f"with `--margin_mining=hard_per_query` has {margin}" in words
    assert f"`hard_per_query` {contrastive})" in words


def test_figures_are_of_committed_code_and_of_test_classes():
    for name in ("cars_part_whitened", "cars_part_conditions", "emoji", "emoji_rivals"):
        lines = read_results(RESULTS / f"{name}.csv")
        assert not any("+changes" in line["commit"] for line in lines)
        of_test_classes = [line for line in lines if line["setting"] != "condition=few_classes"]
        assert {line["split"] for line in of_test_classes} == {"test"}
