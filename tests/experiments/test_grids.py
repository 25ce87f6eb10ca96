"""The grid files: every run is a valid configuration, of the row of the paper that it says."""

import csv
import re
from pathlib import Path

import pytest
from grid_report.data import PARTIAL_VARIANTS

from profs_tf.runs.loss import build_loss
from tests.experiments.grid_configs import CHOOSING, FOLDER, FORMS, GRIDS, ROOT, configs_in, configs_of


def test_there_is_a_grid_for_the_tables_and_for_each_figure():
    names = [
        "cars_part_conditions",
        "cars_part_finetune",
        "cars_part_forms",
        "cars_part_head",
        "cars_part_hncm",
        "cars_part_overfit",
        "cars_part_proximal",
        "cars_part_readings",
        "cars_part_small_batch",
        "cars_part_steps",
        "cars_part_tuning",
        "cars_part_whitened",
        "cars_part_whitened_tuning",
        "cars_part_wrong_labels",
        "emoji_ablations",
        "emoji_margins",
        "emoji_plain",
        "emoji_power",
        "emoji_proximal",
        "emoji_pull",
        "emoji_regimes",
        "emoji_rivals",
        "emoji_rivals_tuning",
        "emoji_steps",
        "emoji_table",
        "emoji_tuning",
        "paper",
    ]
    assert [path.stem for path in GRIDS] == names


def test_the_table_of_grids_counts_their_runs_and_those_made():
    table = re.findall(
        r"^\| \[(\w+)\]\(grids/\1\.yaml\) \| .* \| (\d+) \| (\d+) \|$",
        (ROOT / "experiments/README.md").read_text("utf-8"),
        re.MULTILINE,
    )
    made = set()
    for path in (ROOT / "experiments/results").glob("*.csv"):
        with open(path, encoding="utf-8", newline="") as file:
            made |= {row.get("run") for row in csv.DictReader(file)}
    runs = {path.stem: {run.name for run in configs_in(path)} for path in GRIDS}
    assert {name: (int(all_runs), int(made_runs)) for name, all_runs, made_runs in table} == {
        name: (len(names), len(names & made)) for name, names in runs.items()
    }
    assert len(table) == len(runs)


@pytest.mark.parametrize("path", GRIDS, ids=lambda path: path.stem)
def test_every_run_is_a_valid_configuration(path):
    configs = configs_in(path)
    assert configs
    for run, config in configs.items():
        assert (config.seed, Path(config.output_dir)) == (run.seed, FOLDER / run.name)
        assert build_loss(config, num_classes=3).get_config()


@pytest.mark.parametrize("path", GRIDS, ids=lambda path: path.stem)
def test_rows_are_those_of_the_paper_that_their_flag_files_name(path):
    with open(ROOT / "experiments/paper_results.csv", newline="") as file:
        in_paper = {(row["table"], row["method"]) for row in csv.DictReader(file)}
    for run in configs_in(path):
        file = next(flag for flag in run.flags if "/losses/" in flag).partition("=")[2]
        method = run.method
        part = run.row.rpartition("_")[2]
        if part in PARTIAL_VARIANTS:
            assert run.row == f"{Path(file).stem}_{part}"
            assert run.method.endswith(f"-{part}")
            continue
        if run.table == "rivals":
            assert run.row in _rival_rows(Path(file).stem, path.stem)
            continue
        if path.stem in FORMS:
            # A row with another margin says so behind the names.
            assert run.row.startswith(f"{Path(file).stem}_")
            method, _, said = run.method.partition(" ")
            assert run.row.endswith(f"_{re.sub('[ -]', '_', said)}")
        else:
            assert run.row == Path(file).stem
        assert (run.table, method) in in_paper
        head = (ROOT / file).read_text("utf-8")
        assert re.match(rf"# Table {run.table} of the paper, row {re.escape(method)}: ", head)


def _rival_rows(stem, grid):
    """Returns the rows of a flag file of a loss or method that the paper does not have."""
    if stem == "contrastive":
        return {"contrastive_all_baseline", "contrastive_all_profs"}
    rows = {stem} if stem.endswith("_ccp") else {f"{stem}_baseline"}
    return rows | {f"{stem}_hard"} if grid in CHOOSING else rows


def test_the_paper_s_grid_has_every_row_with_a_flag_file_on_its_three_data_sets():
    runs = configs_of("paper")
    files = {path.stem for path in (ROOT / "experiments/losses").glob("*.flags")}
    rows = {name for name in files if name.endswith(("_baseline", "_profs", "_hncm"))}
    assert {run.row for run in runs} == rows
    for name, dataset in (("SOP", "sop"), ("CARS196", "cars196"), ("CUB-200-2011", "cub200")):
        chosen = [run for run in runs if run.dataset == name]
        assert len(chosen) == len(rows) * 3 * 2
        assert {(run.seed, run.setting) for run in chosen} == {
            (seed, setting) for seed in range(3) for setting in ("", "batch_norm=trained")
        }
        assert {runs[run].dataset for run in chosen} == {dataset}
