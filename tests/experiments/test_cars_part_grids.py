import dataclasses

import pytest

from profs_tf.config import Config
from tests.experiments.grid_configs import (
    CHOOSING,
    GRIDS,
    LOSSES,
    configs_in,
    configs_of,
    epochs_and_steps,
    patience_that_acts,
)

CARS = [path for path in GRIDS if path.stem.startswith("cars_part") and path.stem != "cars_part_finetune"]
CONDITIONS = ("cars_part_conditions", "cars_part_wrong_labels")
# The table of variants in experiments/README.md: method, M and lambda.
VARIANTS = {
    "baseline": ("baseline", None, 1e-3),
    "selection": ("baseline", None, 1e-3),
    "representatives": ("profs", 1, 0),
    "reuse": ("profs", None, 0),
    "profs": ("profs", None, 1e-3),
    "profs_hncm": ("profs_hncm", None, 1e-3),
    "pull": ("proximal", None, 1e-3),
    "ccp": ("ccp", None, 1e-3),
}
WHITENED = ("cars_part_whitened", "cars_part_whitened_tuning", "cars_part_readings", *CONDITIONS)
# Reading of PROFS -> what differs from the default.
READINGS = {
    "equation 4.6": {"loss_options": {"mining": "all", "trainable_boundary": False}},
    "no pairs of representatives": {"representative_pairs": False},
    "cyclic representatives": {"representative_draw": "cyclic"},
    "one augmentation": {"fix_representative_augmentation": True},
    "classes in rounds": {"class_draw": "rounds"},
    "plateau": {"projection_end": "plateau"},
}


@pytest.mark.parametrize("path", CARS, ids=lambda path: path.stem)
def test_grids_of_the_cars_share_one_head_and_one_budget(path):
    head = "linear" if path.stem in WHITENED else "mlp"
    for config in configs_in(path).values():
        assert (config.backbone, config.pretrained) == ("efficientnet_lite0", "imagenet")
        assert (config.train_layers, config.head, config.head_init) == ("head", head, None)
        assert config.head_multiplier == 1
        assert epochs_and_steps(config) == (10, 100)
        assert patience_that_acts(config) is None
        if path.stem not in CONDITIONS:
            assert config.dataset == "cars196"
            assert config.batch_size == (32 if path.stem == "cars_part_small_batch" else 128)
            assert config.validation_classes == (0.4 if path.stem in CHOOSING else None)


def test_rows_of_a_loss_on_the_cars_differ_in_the_parts_of_profs_only():
    parts = {name: getattr(Config(), name) for name in ("method", "steps_per_projection", "proximal_weight")}
    by_loss = {}
    for config in configs_of("cars_part_head").values():
        options = {name: value for name, value in config.loss_options.items() if name != "mining"}
        same = dataclasses.replace(config, output_dir="", loss_options=options, **parts)
        by_loss.setdefault((config.loss, config.seed), set()).add(same.to_json())
    assert set(by_loss) == {(loss, seed) for loss in LOSSES for seed in range(10)}
    assert {len(configs) for configs in by_loss.values()} == {1}


@pytest.mark.parametrize(
    "name", ["cars_part_head", "cars_part_whitened", "cars_part_overfit", "cars_part_finetune"]
)
def test_variants_have_the_flags_of_their_parts(name):
    for run, config in configs_of(name).items():
        variant = next(variant for variant in sorted(VARIANTS, key=len)[::-1] if run.row.endswith(variant))
        found = config.method, config.steps_per_projection, config.proximal_weight
        assert found == VARIANTS[variant], run.name
        assert (config.loss_options.get("mining") == "hard_per_query") == (variant == "selection")


@pytest.mark.parametrize(
    ("name", "option", "values"),
    [
        ("cars_part_steps", "steps_per_projection", {1, 3, 10, 30, 100, 10**6}),
        ("cars_part_proximal", "proximal_weight", {0, 1e-3, 1e-2, 1e-1, 1, 10}),
        ("cars_part_hncm", "hard_classes_per_seed", {1, 3, 7, 31}),
    ],
)
def test_axes_have_their_values(name, option, values):
    by_value = {}
    for config in configs_of(name).values():
        by_value.setdefault(getattr(config, option), []).append(config)
    assert {10 if value is None else value for value in by_value} == values


def test_readings_differ_from_the_default_in_what_they_say():
    configs = configs_of("cars_part_readings")
    defaults = {run.seed: config for run, config in configs.items() if not run.setting}
    whitened = {run.name: config for run, config in configs_of("cars_part_whitened").items()}
    for run, config in configs.items():
        default = defaults[run.seed]
        changes = READINGS[run.setting.removeprefix("reading=")] if run.setting else {}
        options = {**default.loss_options, **changes.get("loss_options", {})}
        changed = dataclasses.replace(default, **{**changes, "loss_options": options})
        assert dataclasses.replace(config, output_dir=default.output_dir) == changed
        if not run.setting:
            assert config == whitened[run.name]
    assert {run.setting for run in configs} == {"", *(f"reading={name}" for name in READINGS)}


def test_the_fine_tuning_grid_trains_whole_networks_from_a_whitened_head():
    configs = configs_of("cars_part_finetune")
    methods = ("baseline", "profs", "profs_hncm")
    losses = ("contrastive", "margin", "multi_similarity", "soft_triple")
    assert {(config.loss, config.method, config.seed) for config in configs.values()} == {
        (loss, method, seed) for loss in losses for method in methods for seed in range(3)
    }
    assert {run.row for run in configs if run.row.endswith("selection")} == {
        "contrastive_selection",
        "margin_selection",
    }
    for config in configs.values():
        assert (config.backbone, config.pretrained, config.train_layers) == (
            "efficientnet_lite0",
            "imagenet",
            "all",
        )
        assert config.head_init in (None, "pca")
        assert (config.validation_classes, config.patience) == (None, None)
