"""What the report says of differences between rows."""

import numpy as np
import pytest
import yaml
from grid_report import decomposition, plots, tables
from grid_report.data import ReportData, _read_families
from grid_report.statistics import Estimate, estimate, paired_difference, significant_together
from scipy import stats

from tests.tools.report_place import RECALLS, ROOT, lines, read, table_cells, write


def test_intervals_are_scipy_s():
    values = [50.0, 51.0, 52.5, 49.0]
    found = estimate(values)
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    assert (found.mean - found.half_width, found.mean + found.half_width) == pytest.approx((low, high))
    assert found.count == 4
    assert found.p_value == pytest.approx(stats.ttest_1samp(values, 0.0).pvalue)


def test_intervals_by_hand():
    # s = 1, t(0.975, 2) = 4.302653 from a printed table: 4.302653 / sqrt(3).
    assert estimate([1.0, 2.0, 3.0]).half_width == pytest.approx(2.484138, abs=1e-6)
    assert estimate([1.0, 2.0, 3.0]).text() == "2.00 ± 2.48"
    assert estimate([-0.5]).text(signed=True) == "-0.50"
    assert estimate([7.0]).half_width is None
    assert estimate([7.0]).p_value is None
    assert [estimate([value] * 3).p_value for value in (0.0, 2.0)] == [1.0, 0.0]
    assert estimate([]) is None


def test_differences_are_paired_by_seed():
    one, other = {0: 53.0, 1: 53.5, 2: 55.5, 7: 99.0}, {2: 52.5, 1: 51.0, 0: 50.0, 8: -99.0}
    found = paired_difference(one, other)
    paired = stats.ttest_rel([53.0, 53.5, 55.5], [50.0, 51.0, 52.5]).confidence_interval(0.95)
    assert (found.mean - found.half_width, found.mean + found.half_width) == pytest.approx(tuple(paired))
    assert found.count == 3
    assert paired_difference({0: 1.0}, {1: 1.0}) is None


def test_differences_are_significant_together_by_holm_s_rule():
    # 0.05 / 4, / 3 and / 2 are 0.0125, 0.0167 and 0.025: the third is above, so the fourth is not named.
    values = [0.03, 0.011, None, 0.04, 0.016]
    found = [None if value is None else Estimate(1.0, 1.0, 9, value) for value in values]
    assert significant_together(found) == [False, True, False, False, True]
    assert significant_together([Estimate(1.0, None, 1), None]) == [False, False]


def test_the_mean_of_the_losses_is_over_the_seeds_that_all_have(tmp_path):
    # Contrastive: +3, +2.5 and +3, as above. Multi-similarity: +1 and +0.2, of the first two seeds.
    rows = lines()
    for method, percents in (("MS", (60.0, 60.0)), ("MS-PROFS", (61.0, 60.2))):
        for seed, percent in enumerate(percents):
            changes = {"method": method, "seed": str(seed), "percent": str(percent), "run": f"{method}{seed}"}
            rows.append({**rows[0], **changes})
    write(tmp_path, rows)
    data = read(tmp_path)
    cells = table_cells(
        tables.difference_table(data, "emoji"), loss=tables.MEAN_OF_LOSSES, difference="PROFS - baseline"
    )
    by_seed = [(3.0 + 1.0) / 2, (2.5 + 0.2) / 2]
    low, high = stats.t.interval(0.95, 1, loc=np.mean(by_seed), scale=stats.sem(by_seed))
    assert cells["R@1"] == f"{np.mean(by_seed):+.2f} ± {(high - low) / 2:.2f}"
    # NMI is there of the contrastive loss alone.
    assert (cells["pairs"], cells["paper R@1 SOP"]) == ("3", tables.UNKNOWN)
    assert tables.mean_difference(read(tmp_path), "emoji", "R@1", "selection", "baseline") is None


def test_other_settings_are_paired_within_themselves(tmp_path):
    rows = lines()
    for variant_row, percents in ((rows[0], (40.0, 42.0)), (rows[6], (41.0, 42.5))):
        for seed, percent in enumerate(percents):
            changes = {"seed": str(seed), "setting": "regime=trained", "percent": str(percent)}
            rows.append({**variant_row, **changes, "run": f"{variant_row['method']}-trained-{seed}"})
    write(tmp_path, rows)
    table = tables.recall_table(read(tmp_path), "emoji")
    # M and lambda have figures of their own.
    assert [row[:2] for row in table.rows] == [["contrastive", "default"], ["contrastive", "regime=trained"]]
    cells = table_cells(table, setting="regime=trained")
    assert (cells["baseline"], cells["PROFS"]) == ("41.00 ± 12.71", "41.75 ± 9.53")
    # 1 and 0.5: 0.75 +- t(0.975, 1) * 0.25.
    assert cells["PROFS - baseline"] == "+0.75 ± 3.18"
    assert (cells["PROFS + HNCM"], cells["HNCM - PROFS"]) == (tables.NOT_RUN, tables.NOT_RUN)
    assert cells["seeds"] == "2"
    assert table_cells(table, setting="default")["PROFS - baseline"] == "+2.83 ± 0.72"


def test_seeds_of_variants_are_counted_apart_where_they_differ(tmp_path):
    rows = lines()
    more = {**rows[0], "seed": "9", "run": "more"}
    write(tmp_path, [*rows, more])
    cells = table_cells(tables.recall_table(read(tmp_path), "emoji"), setting="default")
    assert cells["seeds"] == "4 / 3 / 2"


def test_differences_are_of_the_best_epoch_and_of_the_last_evaluations(tmp_path):
    rows = lines()
    last = [
        {
            **row,
            "metric": "R@1 last3",
            "percent": str(float(row["percent"]) - 2 * (row["variant"] == "profs")),
        }
        for row in rows
        if row["metric"] == "R@1"
    ]
    write(tmp_path, rows + last)
    data = read(tmp_path)
    assert data.metrics("emoji") == ["NMI", "R@1", "R@1 last3"]
    cells = table_cells(tables.recall_table(data, "emoji"), loss="contrastive")
    assert (cells["PROFS - baseline"], cells["PROFS - baseline last3"]) == ("+2.83 ± 0.72", "+0.83 ± 0.72")
    cells = table_cells(tables.difference_table(data, "emoji"), loss="contrastive")
    assert (cells["R@1"], cells["R@1 last3"]) == ("+2.83 ± 0.72", "+0.83 ± 0.72")
    assert (
        table_cells(tables.main_table(data, "emoji"), method="C-PROFS (table 1)")["R@1 last3"]
        == "52.00 ± 3.29"
    )


PARTIAL = {
    "selection": (51.0, 52.5, 53.0),
    "representatives": (51.5, 52.5, 54.5),
    "reuse": (53.5, 53.0, 55.5),
    "pull": (50.5, 50.5, 52.5),
}


def grid_with_parts(folder):
    rows = {f"contrastive_{name}": {"flags": [], "table": 1, "method": f"C-{name}"} for name in PARTIAL}
    rows["contrastive_baseline"] = {"flags": [], "table": 1, "method": "Contrastive-Hard"}
    rows["contrastive_profs"] = {"flags": [], "table": 1, "method": "C-PROFS"}
    rows["margin_baseline"] = {"flags": [], "table": 1, "method": "Margin-Hard"}
    rows["margin_reuse"] = {"flags": [], "table": 1, "method": "M-reuse"}
    (folder / "parts.yaml").write_text(yaml.safe_dump({"rows": rows}))


def test_the_parts_of_profs_are_told_apart(tmp_path):
    rows = lines()
    for name, percents in PARTIAL.items():
        for seed, percent in enumerate(percents):
            changes = {
                "method": f"C-{name}",
                "seed": str(seed),
                "percent": str(percent),
                "run": f"{name}{seed}",
            }
            rows.append({**rows[0], **changes})
    write(tmp_path, rows)
    grid_with_parts(tmp_path)
    data = ReportData(tmp_path / "results.csv", tmp_path, ROOT / "experiments/paper_results.csv", tmp_path)
    table = decomposition.decomposition_table(data, "emoji")
    found = [
        tuple(dict(zip(table.header, row))[name] for name in ("loss", "part", "difference", "pairs"))
        for row in table.rows
    ]
    # Without runs the margin loss has no row; without a row in the grid HNCM has none.
    assert found == [
        ("contrastive", "selection", "selection - baseline", "3"),
        ("contrastive", "representatives", "representatives - selection", "3"),
        ("contrastive", "reuse", "reuse - representatives", "3"),
        ("contrastive", "pull", "PROFS - reuse", "3"),
        ("contrastive", "pull alone", "pull - baseline", "3"),
        ("contrastive", "M = 1, no pull", "representatives - baseline", "3"),
        ("contrastive", "all but selection", "PROFS - selection", "3"),
    ]
    texts, p_values = [], []
    for one, other in [
        (PARTIAL["selection"], RECALLS["Contrastive-Hard", "baseline", ""]),
        (PARTIAL["representatives"], PARTIAL["selection"]),
        (PARTIAL["reuse"], PARTIAL["representatives"]),
        (RECALLS["C-PROFS", "profs", ""], PARTIAL["reuse"]),
        (PARTIAL["pull"], RECALLS["Contrastive-Hard", "baseline", ""]),
        (PARTIAL["representatives"], RECALLS["Contrastive-Hard", "baseline", ""]),
        (RECALLS["C-PROFS", "profs", ""], PARTIAL["selection"]),
    ]:
        test = stats.ttest_rel(one, other)
        mean = np.mean(np.subtract(one, other))
        texts.append(f"{mean:+.2f} ± {test.confidence_interval(0.95).high - mean:.2f}")
        p_values.append(test.pvalue)
    # Holm's adjusted values: the largest so far of each value times the number of those not below it.
    order = np.argsort(p_values)
    adjusted = np.maximum.accumulate(np.sort(p_values) * np.arange(len(order), 0, -1))
    marked = {index for index, value in zip(order, adjusted) if value <= 0.05}
    expected = [text + (" *" if index in marked else "") for index, text in enumerate(texts)]
    assert [row[table.header.index("R@1")] for row in table.rows] == expected
    assert plots.parts(data, "emoji", "light").startswith(b"\x89PNG")
    cells = table_cells(decomposition.verdict_table(data, "emoji"), loss="contrastive")
    assert cells["PROFS - baseline, R@1"] == "helps: +2.83 ± 0.72 *"
    # What no axis varies is one setting; M and lambda have curves.
    assert len(decomposition.verdict_table(data, "emoji").rows) == 1


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([1.0, 2.0, 3.0], "undecided at this power: +2.00 ± 2.48"),
        ([-1.0, -1.1, -1.2], "hurts: -1.10 ± 0.25"),
        ([4.0], "undecided at this power: +4.00"),
    ],
)
def test_a_verdict_needs_an_interval_that_leaves_out_zero(values, text):
    assert decomposition.verdict(estimate(values)) == text


def test_the_row_of_a_variant_is_the_one_that_was_run(tmp_path):
    for name, table in (("a", "rivals"), ("b", "2")):
        rows = f"rows: {{x_baseline: {{flags: [], table: {table}, method: X}}}}"
        (tmp_path / f"{name}.yaml").write_text(rows)
    for table in ("rivals", "2"):
        assert _read_families(tmp_path, [(table, "X")]) == {"x": {"baseline": (table, "X")}}
