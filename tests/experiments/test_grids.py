"""The grid files: every run is a valid configuration, of the row of the paper that it says."""

import csv
import dataclasses
import functools
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from grid_report.data import PARTIAL_VARIANTS  # noqa: E402
from grid_runs.grid_file import read_grid  # noqa: E402

from profs_tf import datasets  # noqa: E402
from profs_tf.config import Config  # noqa: E402
from profs_tf.runs.factory import build_sampler  # noqa: E402
from profs_tf.runs.loss import build_loss  # noqa: E402

GRIDS = sorted((ROOT / "experiments/grids").glob("*.yaml"))
CARS_HEAD = [
    path
    for path in GRIDS
    if path.stem.startswith("cars_part") and not path.stem.endswith(("conditions", "finetune", "labels"))
]
EMOJI = [path for path in GRIDS if path.stem.startswith("emoji")]
# Grids by which values are chosen.
FORMS = ("cars_part_forms", "emoji_margins")
CHOOSING = (
    "cars_part_forms",
    "cars_part_rivals_tuning",
    "cars_part_tuning",
    "emoji_ablations",
    "emoji_margins",
    "emoji_pull",
    "emoji_regimes",
    "emoji_rivals_tuning",
    "emoji_tuning",
)
LOSSES = {
    "contrastive",
    "triplet",
    "lifted_structure",
    "n_pair",
    "angular",
    "margin",
    "multi_similarity",
    "soft_triple",
}
FOLDER = Path("folder")


@pytest.fixture(autouse=True)
def at_repository_root(monkeypatch):
    """Flag files name each other relative to it."""
    monkeypatch.chdir(ROOT)


@functools.cache
def configs_in(path):
    """Returns the runs of a grid file, each with its configuration; read once, since that takes long."""
    return {run: run.config(FOLDER / run.name) for run in read_grid(path)}


def configs_of(name):
    return configs_in(ROOT / f"experiments/grids/{name}.yaml")


def test_there_is_a_grid_for_the_tables_and_for_each_figure():
    names = [
        "cars_part_conditions",
        "cars_part_finetune",
        "cars_part_forms",
        "cars_part_head",
        "cars_part_hncm",
        "cars_part_overfit",
        "cars_part_proximal",
        "cars_part_rivals",
        "cars_part_rivals_tuning",
        "cars_part_small_batch",
        "cars_part_steps",
        "cars_part_tuning",
        "cars_part_wrong_labels",
        "emoji_ablations",
        "emoji_margins",
        "emoji_plain",
        "emoji_power",
        "emoji_proximal",
        "emoji_pull",
        "emoji_regimes",
        "emoji_rivals_tuning",
        "emoji_steps",
        "emoji_table",
        "emoji_tuning",
        "paper",
    ]
    assert [path.stem for path in GRIDS] == names


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
    rows = {stem} if stem.endswith("_ccp") else {f"{stem}_baseline"}
    return rows | {f"{stem}_hard"} if grid in CHOOSING else rows


@pytest.mark.parametrize(
    ("name", "mirror", "shift"), [("emoji_table", True, None), ("emoji_plain", False, 0)]
)
def test_the_emoji_tables_have_every_loss_in_every_form_with_three_seeds(name, mirror, shift):
    configs = configs_of(name)
    assert {(config.mirror, config.image_shift) for config in configs.values()} == {(mirror, shift)}
    forms = [(config.loss, config.method, config.seed) for config in configs.values()]
    wanted = {
        (loss, method, seed)
        for loss in LOSSES
        for method in ("baseline", "profs", "profs_hncm")
        for seed in range(3)
    }
    assert len(forms) == len(wanted)
    assert set(forms) == wanted


@pytest.mark.parametrize("name", ["emoji_table", "emoji_plain"])
def test_forms_of_a_loss_differ_in_nothing_but_the_method(name):
    by_loss = {}
    for config in configs_of(name).values():
        text = config.to_json().replace(config.output_dir, "").replace(f'"{config.method}"', "")
        by_loss.setdefault((config.loss, config.seed), set()).add(text)
    assert {len(texts) for texts in by_loss.values()} == {1}


def test_the_fine_tuning_grid_trains_whole_networks_from_a_whitened_head():
    configs = configs_of("cars_part_finetune")
    methods = ("baseline", "profs", "profs_hncm")
    losses = ("contrastive", "margin", "multi_similarity", "soft_triple")
    assert {(config.loss, config.method, config.seed) for config in configs.values()} == {
        (loss, method, seed) for loss in losses for method in methods for seed in range(3)
    }
    for config in configs.values():
        assert (config.backbone, config.pretrained, config.train_layers) == (
            "efficientnet_lite0",
            "imagenet",
            "all",
        )
        assert config.head_init in (None, "pca")
        assert (config.validation_classes, config.patience) == (None, None)


def _epochs(config):
    """Returns epochs and their steps, of CCP's in fours: it evaluates four times as often."""
    if config.method == "ccp":
        return config.epochs / 4, config.steps_per_epoch * 4
    return config.epochs, config.steps_per_epoch


def _patience(config):
    """Returns the patience that can end a run."""
    return config.patience if config.patience and config.patience < config.epochs else None


@pytest.mark.parametrize("path", EMOJI, ids=lambda path: path.stem)
def test_emoji_grids_share_one_network_and_one_budget(path):
    # Values are never chosen by the test classes.
    held_out = 0.2 if path.stem in CHOOSING else None
    for run, config in configs_in(path).items():
        assert (config.dataset, config.backbone, config.embedding_dim) == ("emoji", "conv4", 128)
        assert (_patience(config), config.validation_classes) == (None, held_out)
        if path.stem != "emoji_regimes" or not run.setting:
            assert _epochs(config) == (10, 100)
            assert config.batch_size == 128
            assert config.images_per_class == (4 if config.method == "ccp" else 2)


@pytest.mark.parametrize("path", CARS_HEAD, ids=lambda path: path.stem)
def test_grids_of_the_cars_share_one_head_and_one_budget(path):
    held_out = 0.4 if path.stem in CHOOSING else None
    for config in configs_in(path).values():
        assert (config.dataset, config.backbone, config.pretrained) == (
            "cars196",
            "efficientnet_lite0",
            "imagenet",
        )
        assert (config.train_layers, config.head, config.head_multiplier) == ("head", "mlp", 1)
        assert (*_epochs(config), config.batch_size) == (10, 100, 32 if "small_batch" in path.stem else 128)
        assert (_patience(config), config.validation_classes) == (None, held_out)


def test_rows_of_a_loss_on_the_cars_differ_in_the_parts_of_profs_only():
    parts = {name: getattr(Config(), name) for name in ("method", "steps_per_projection", "proximal_weight")}
    by_loss = {}
    for config in configs_of("cars_part_head").values():
        options = {name: value for name, value in config.loss_options.items() if name != "mining"}
        same = dataclasses.replace(config, output_dir="", loss_options=options, **parts)
        by_loss.setdefault((config.loss, config.seed), set()).add(same.to_json())
    assert set(by_loss) == {(loss, seed) for loss in LOSSES for seed in range(10)}
    assert {len(configs) for configs in by_loss.values()} == {1}


def test_a_name_stands_for_the_same_run_in_all_grids():
    seen = {}
    for path in EMOJI:
        for run, config in configs_in(path).items():
            text = config.to_json()
            assert seen.setdefault(run.name, text) == text, run.name
    shared = sum(len(configs_in(path)) for path in EMOJI) - len(seen)
    # The rule's M for four losses and lambda = 1e-3 for one, with three seeds; PROFS as it is of two losses;
    # three losses in two forms with three seeds.
    assert shared == 3 * 4 + 3 + 2 + 3 * 2 * 3


def test_the_steps_grid_has_the_lengths_of_a_projection():
    train, _ = datasets.load("emoji")
    lengths = {}
    for run, config in configs_of("emoji_steps").items():
        assert config.method == "profs"
        assert config.proximal_weight == 1e-3
        sampler = build_sampler(config, train)
        lengths.setdefault((config.loss, config.seed), {})[run.setting] = sampler.steps_per_projection
    assert set(lengths) == {
        (loss, seed) for loss in ("contrastive", "triplet", "n_pair", "margin") for seed in range(3)
    }
    rule = -(-6 * train.num_classes // 64)
    for found in lengths.values():
        never = found.pop("M=never")
        assert never > 1000
        assert found == {
            "M=1": 1,
            "M=3": 3,
            "M=10": 10,
            "": rule,
            "M=3x": -(-18 * train.num_classes // 64),
            "M=10x": -(-60 * train.num_classes // 64),
        }


def test_the_proximal_grid_has_the_weights_of_the_pull():
    weights = {}
    for config in configs_of("emoji_proximal").values():
        assert (config.loss, config.method, config.steps_per_projection) == ("margin", "profs", None)
        weights.setdefault(config.seed, []).append(config.proximal_weight)
    assert weights == {seed: [0.0, 1e-4, 1e-3, 1e-2, 1e-1] for seed in range(3)}


def test_ablations_leave_out_one_part_each():
    as_it_is = {run.row: config for run, config in configs_of("emoji_regimes").items() if not run.setting}
    changes = {}
    for run, config in configs_of("emoji_ablations").items():
        differing = {
            name: value
            for name, value in dataclasses.asdict(config).items()
            if value != getattr(as_it_is[run.row], name) and name != "output_dir"
        }
        changes.setdefault(run.setting, []).append(differing)
    assert changes == {
        "part=no_pull": [{"proximal_weight": 0.0}] * 4,
        "part=cyclic": [{"representative_draw": "cyclic"}] * 4,
        "part=one_hard_class": [{"hard_classes_per_seed": 1}] * 4,
    }


def test_the_pull_grid_has_every_weight_with_every_number_of_uses():
    found = {}
    for config in configs_of("emoji_pull").values():
        assert (config.method, config.mirror, config.image_shift) == ("profs", False, 0)
        found.setdefault(config.loss, []).append((config.proximal_weight, config.representative_uses))
    every = [(weight, uses) for weight in (1e-3, 1e-2, 1e-1, 1.0) for uses in (6, 1, 2, 18)]
    assert found == {"contrastive": every, "margin": every}


def test_small_batches_see_as_many_images():
    seen = {
        run.setting: config.epochs * config.steps_per_epoch * config.batch_size
        for run, config in configs_of("emoji_regimes").items()
    }
    assert seen["regime=small_batch"] == seen[""]


def test_trained_regimes_begin_with_a_run_of_the_tuning():
    trained = [config for config in configs_of("emoji_regimes").values() if config.initial_run]
    assert len(trained) == 2 * 6
    (initial,) = {config.initial_run for config in trained}
    runs = {run.name: config for run, config in configs_of("emoji_tuning").items()}
    assert Path(initial).parent == Path("runs/grid")
    assert runs[Path(initial).name].learning_rate == 3e-3


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
