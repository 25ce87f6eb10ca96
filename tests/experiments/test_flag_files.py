"""The flag files against the paper: settings (section 5.2) and methods (5.3)."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from profs_tf import backbones
from profs_tf.runs.factory import build_sampler
from profs_tf.runs.loss import build_loss
from profs_tf.runs.provenance import with_weights_file
from tests.experiments.flag_files import DATA_SETS, EXPERIMENTS, ROWS, parse, parse_files, parse_row, row_file
from tests.experiments.grid_configs import ROOT

ALL_FILES = sorted(path.relative_to(ROOT).as_posix() for path in EXPERIMENTS.rglob("*.flags"))
# What a file may replace; every other value is written once on the way from the command line to base.flags.
REPLACEABLE = {"method", "loss", "output_dir", "backbone", "margin_mining", "triplet_mining"}


def flags_set(file):
    """Yields the names of the flags that a file and those it includes set, in their order."""
    for line in (ROOT / file).read_text("utf-8").splitlines():
        if line.startswith("--flagfile="):
            yield from flags_set(line.split("=", 1)[1])
        elif line and not line.startswith("#"):
            yield re.match(r"--(\w+)=", line).group(1)


@pytest.mark.parametrize("data_set", DATA_SETS)
def test_random_weights_have_to_be_asked_for(data_set):
    with pytest.raises(
        ValueError, match="`pretrained` must be given, since these settings need a pretrained"
    ):
        with_weights_file(parse_row("margin_profs", data_set))
    with_weights_file(parse([f"--flagfile=experiments/{data_set}.flags", "--pretrained=none"]))


@pytest.mark.parametrize("file", ALL_FILES)
def test_every_file_is_valid_by_itself(file):
    parse_files(file)


def test_every_row_and_data_set_has_its_file_and_no_file_is_unknown():
    rows = {
        Path(file).stem
        for file in ALL_FILES
        if file.endswith(("_baseline.flags", "_profs.flags", "_hncm.flags"))
    }
    assert rows == set(ROWS)
    at_top = {path.stem for path in EXPERIMENTS.glob("*.flags")}
    assert at_top == {
        "base",
        "cars_part_finetune",
        "cars_part_head",
        "emoji",
        "emoji_plain",
        "emoji_table",
        *DATA_SETS,
    }


@pytest.mark.parametrize("data_set", DATA_SETS)
def test_data_set_files_follow_section_5_2(data_set):
    config = parse_files(f"experiments/{data_set}.flags")
    _, name, learning_rate, ks, _, _ = DATA_SETS[data_set]
    assert (config.dataset, config.learning_rate, config.ks) == (name, learning_rate, ks)
    assert (config.method, config.loss, config.backbone) == ("profs", "margin", "inception_v1")
    assert config.output_dir == f"runs/{data_set}"


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("data_set", DATA_SETS)
def test_every_combination_follows_section_5_2(data_set, row):
    config = parse_row(row, data_set)
    _, name, learning_rate, ks, _, _ = DATA_SETS[data_set]
    assert (config.dataset, config.learning_rate, config.ks) == (name, learning_rate, ks)
    assert (config.batch_size, config.embedding_dim, config.epochs) == (128, 512, 100)
    assert (config.beta_1, config.beta_2, config.head_multiplier) == (0.9, 0.99, 10.0)
    assert (config.representative_uses, config.images_per_class) == (6, 2)
    assert (config.image_resize, config.image_crop, config.mirror) == (256, 224, True)
    assert config.proximal_decay == 1.0
    assert config.steps_per_projection is None


@pytest.mark.parametrize("row", ROWS)
def test_rows_train_the_loss_of_their_name(row):
    config = parse_row(row)
    _, _, expected = ROWS[row]
    assert row.startswith(config.loss)
    built = build_loss(config, num_classes=3).get_config()
    assert {name: built[name] for name in expected} == expected


@pytest.mark.parametrize("row", ROWS)
def test_rows_train_a_network_there_is(row):
    config = parse_row(row)
    # Those of table 2 train the networks of their original works (section 5.3); table 1 shares one.
    expected = {"margin_resnet50": "resnet50", "soft_triple": "bn_inception", "proxy_nca": "bn_inception"}
    found = [network for name, network in expected.items() if row.startswith(name)]
    assert config.backbone == (found[0] if ROWS[row][0] == "2" else "inception_v1")
    assert config.backbone in backbones.names()


@pytest.mark.parametrize("row", ROWS)
def test_baselines_neither_project_nor_pull_and_profs_does(row):
    config = parse_row(row)
    labels = np.repeat(np.arange(DATA_SETS["cub"][4]), 3)
    sampler = build_sampler(config, SimpleNamespace(labels=labels))
    if row.endswith("_baseline"):
        assert config.method == "baseline"
        assert config.effective_proximal_weight == 0.0
        assert sampler.steps_per_projection == 1
    else:
        assert config.method == ("profs_hncm" if row.endswith("_hncm") else "profs")
        assert config.effective_proximal_weight == 1e-3
        assert sampler.steps_per_projection == (1 if config.loss == "soft_triple" else 10)


@pytest.mark.parametrize("data_set", DATA_SETS)
def test_projections_are_as_long_as_section_5_4_1_derives(data_set):
    _, _, _, _, num_classes, steps = DATA_SETS[data_set]
    labels = np.repeat(np.arange(num_classes), 2)
    sampler = build_sampler(parse_row("margin_profs", data_set), SimpleNamespace(labels=labels))
    assert sampler.steps_per_projection == steps


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("data_set", DATA_SETS)
def test_no_value_is_written_twice(data_set, row):
    names = [*flags_set(f"experiments/{data_set}.flags"), *flags_set(row_file(row))]
    assert {name for name in names if names.count(name) > 1} <= REPLACEABLE
