import dataclasses
from pathlib import Path

import pytest

from profs_tf import datasets
from profs_tf.runs.factory import build_sampler
from tests.experiments.grid_configs import (
    CHOOSING,
    GRIDS,
    LOSSES,
    configs_in,
    configs_of,
    epochs_and_steps,
    patience_that_acts,
)

EMOJI = [path for path in GRIDS if path.stem.startswith("emoji")]


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


@pytest.mark.parametrize("path", EMOJI, ids=lambda path: path.stem)
def test_emoji_grids_share_one_network_and_one_budget(path):
    # Values are never chosen by the test classes.
    held_out = 0.2 if path.stem in CHOOSING else None
    for run, config in configs_in(path).items():
        assert (config.dataset, config.backbone, config.embedding_dim) == ("emoji", "conv4", 128)
        assert (patience_that_acts(config), config.validation_classes) == (None, held_out)
        if path.stem != "emoji_regimes" or not run.setting:
            assert epochs_and_steps(config) == (10, 100)
            assert config.batch_size == 128
            assert config.images_per_class == (4 if config.method == "ccp" else 2)


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
