"""The flag files against the paper: settings (section 5.2), methods (5.3) and the figures of its tables."""

import csv
import re
import shlex
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from absl import flags

from profs_tf import backbones, train
from profs_tf.cli import config_flags
from profs_tf.config import Config
from profs_tf.runs.factory import build_sampler
from profs_tf.runs.loss import build_loss
from profs_tf.runs.provenance import with_weights_file

ROOT = Path(__file__).parents[2]
EXPERIMENTS = ROOT / "experiments"
ALL_FILES = sorted(path.relative_to(ROOT).as_posix() for path in EXPERIMENTS.rglob("*.flags"))

# Data set file -> its name in the figures, values of section 5.2, training classes L, and M = ceil(6 L / 64).
DATA_SETS = {
    "cub": ("CUB-200-2011", "cub200", 1e-5, (1, 2, 4, 8), 100, 10),
    "cars": ("CARS196", "cars196", 1e-5, (1, 2, 4, 8), 98, 10),
    "sop": ("SOP", "sop", 1e-4, (1, 10, 100, 1000), 11318, 1062),
}
# Row file -> table, row, what the loss is built with.
ROWS = {
    "contrastive_baseline": ("1", "Contrastive-Hard", {"margin": 1.0, "mining": "hard"}),
    "contrastive_profs": ("1", "C-PROFS", {"margin": 1.0, "mining": "hard"}),
    "triplet_semi_hard_baseline": ("1", "Triplet-Semi", {"margin": 0.2, "mining": "semi_hard"}),
    "triplet_hard_baseline": ("1", "Triplet-Hard", {"margin": 0.2, "mining": "hard"}),
    "triplet_hard_profs": ("1", "T-PROFS", {"margin": 0.2, "mining": "hard"}),
    "lifted_structure_baseline": ("1", "Lifted", {"margin": 1.0}),
    "lifted_structure_profs": ("1", "L-PROFS", {"margin": 1.0}),
    "n_pair_baseline": ("1", "N-pair", {"l2_weight": 0.002}),
    "n_pair_profs": ("1", "N-PROFS", {"l2_weight": 0.002}),
    "angular_baseline": ("1", "Angular", {"angle": 45.0, "n_pair_weight": 0.0}),
    "angular_profs": ("1", "A-PROFS", {"angle": 45.0, "n_pair_weight": 0.0}),
    "margin_baseline": ("1", "Margin-Hard", {"boundary": 1.2, "margin": 0.2, "mining": "hard"}),
    "margin_profs": ("1", "M-PROFS", {"boundary": 1.2, "margin": 0.2, "mining": "hard"}),
    "multi_similarity_baseline": ("1", "MS", {"alpha": 2.0, "beta": 50.0, "base": 0.5, "eps": 0.1}),
    "multi_similarity_profs": ("1", "MS-PROFS", {"alpha": 2.0, "beta": 50.0, "base": 0.5, "eps": 0.1}),
    "margin_resnet50_baseline": (
        "2",
        "Margin",
        {"boundary": 1.2, "margin": 0.2, "mining": "distance_weighted"},
    ),
    "margin_resnet50_profs": (
        "2",
        "M-PROFS",
        {"boundary": 1.2, "margin": 0.2, "mining": "distance_weighted"},
    ),
    "soft_triple_baseline": (
        "2",
        "SoftTriple",
        {"centers_per_class": 10, "scale": 20.0, "gamma": 0.1, "tau": 0.2, "margin": 0.01},
    ),
    "soft_triple_profs": (
        "2",
        "SoftTriple-PROFS",
        {"centers_per_class": 10, "scale": 20.0, "gamma": 0.1, "tau": 0.2, "margin": 0.01},
    ),
    "proxy_nca_baseline": ("2", "Proxy-NCA", {"scale": 3.0, "positive_in_denominator": False}),
}
# Rows of table 2 that the paper only quotes: other methods, and the multi-similarity loss, which its authors
# trained on another network than the one of table 1.
QUOTED_ROWS = {("2", name) for name in ("Clustering", "HDC", "HTL", "MS", "TML")}
# The same rows with hard negative class mining.
CLASS_MINING_SUFFIX = "-HNCM"
ROWS.update(
    {
        f"{row}_hncm": (table, name + CLASS_MINING_SUFFIX, options)
        for row, (table, name, options) in tuple(ROWS.items())
        if row.endswith("_profs")
    }
)
# What a file may replace; every other value is written once on the way from the command line to base.flags.
REPLACEABLE = {"method", "loss", "output_dir", "backbone", "margin_mining", "triplet_mining"}


@pytest.fixture(autouse=True)
def at_repository_root(monkeypatch):
    """Flag files name each other relative to it."""
    monkeypatch.chdir(ROOT)


def row_file(row):
    return f"experiments/losses/{row}.flags"


def parse(arguments):
    values = flags.FlagValues()
    train.define_flags(values)
    assert values(["train", *arguments])[1:] == []
    return Config(**config_flags.given(values))


def parse_files(*files):
    return parse([f"--flagfile={file}" for file in files])


def parse_row(row, data_set="cub"):
    return parse_files(f"experiments/{data_set}.flags", row_file(row))


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


def header(file):
    """Returns the comment that a file opens with, without its number signs."""
    lines = []
    for line in (ROOT / file).read_text("utf-8").splitlines():
        if not line.startswith("#"):
            break
        lines.append(line[1:])
    return lines


def command_in(file):
    """Returns the arguments of the one command in a file's header."""
    commands = [line.strip() for line in header(file) if "python -m" in line]
    assert len(commands) == 1
    words = shlex.split(commands[0])
    assert words[:3] == ["python", "-m", "profs_tf.train"]
    return words[3:]


def papers_figures():
    with open(EXPERIMENTS / "paper_results.csv", encoding="utf-8", newline="") as file:
        return {
            (row["table"], row["method"], row["dataset"], row["metric"]): row["percent"]
            for row in csv.DictReader(file)
        }


def figures_in(file):
    """Returns {(data set, metric): text} of the table in a file's header, '-' left out."""
    names = {values[0] for values in DATA_SETS.values()}
    columns, figures = None, {}
    for line in header(file):
        words = line.split()
        if "R@1" in words:
            columns = words
        elif words and words[0] in names:
            assert len(words) == len(columns) + 1
            figures.update(((words[0], name), text) for name, text in zip(columns, words[1:]) if text != "-")
    return figures


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


@pytest.mark.parametrize("data_set", DATA_SETS)
def test_the_command_of_a_data_set_runs_it(data_set):
    arguments = command_in(f"experiments/{data_set}.flags")
    assert parse(arguments).data_dir.startswith("FOLDER_OF_")
    without_folder = [argument for argument in arguments if not argument.startswith("--data_dir=")]
    assert without_folder == [f"--flagfile=experiments/{data_set}.flags"]


@pytest.mark.parametrize("row", ROWS)
def test_the_command_of_a_row_runs_it(row):
    arguments = command_in(row_file(row))
    assert arguments == [
        "--flagfile=experiments/cub.flags",
        f"--flagfile={row_file(row)}",
        f"--output_dir=runs/cub_{row}",
    ]
    assert parse(arguments).output_dir == f"runs/cub_{row}"


@pytest.mark.parametrize("row", ROWS)
def test_figures_in_headers_are_the_papers(row):
    table, name, _ = ROWS[row]
    assert header(row_file(row))[0].startswith(f" Table {table} of the paper, row {name}: ")
    expected = {key[2:]: text for key, text in papers_figures().items() if key[:2] == (table, name)}
    assert expected
    assert figures_in(row_file(row)) == expected


def test_every_row_the_authors_trained_has_its_file():
    in_paper = {key[:2] for key in papers_figures()}
    assert in_paper >= QUOTED_ROWS
    trained = in_paper - QUOTED_ROWS
    assert sorted((table, name) for table, name, _ in ROWS.values()) == sorted(trained)


@pytest.mark.parametrize("name", ["emoji", "emoji_table", "emoji_plain"])
def test_an_emoji_file_opens_with_its_command_minutes_and_score(name):
    file = f"experiments/{name}.flags"
    command, cost_and_score = header(file)[:2]
    assert command.split() == ["python", "-m", "profs_tf.train", *command_in(file)]
    assert parse(command_in(file)).output_dir == f"runs/{name}"
    scores = {key: float(text) for key, text in re.findall(r"(Recall@\d+) ([\d.]+) %", cost_and_score)}
    assert re.match(r" \d minutes on two cores\. Recall@1 ", cost_and_score)
    assert scores == {key: measured(name)[key] for key in scores}


def measured(name):
    """Percent of the margin loss with PROFS and seed 0, in the README or in the committed results."""
    if name == "emoji":
        row = re.search(
            r"^\| PROFS, 600 steps (.+) \|$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE
        )
        percents = [float(cell) for cell in row.group(1).split("|")[1:5]]
        return {f"Recall@{k}": round(percent, 1) for k, percent in zip((1, 2, 4, 8), percents)}
    label = {"emoji_table": "emoji", "emoji_plain": "emoji-plain"}[name]
    with open(EXPERIMENTS / "results/emoji.csv", encoding="utf-8", newline="") as file:
        return {
            row["metric"].replace("R@", "Recall@"): round(float(row["percent"]), 1)
            for row in csv.DictReader(file)
            if (row["dataset"], row["method"], row["seed"], row["setting"]) == (label, "M-PROFS", "0", "")
        }
