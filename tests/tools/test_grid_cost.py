"""The estimates of a grid's cost against sums made by hand."""

import re
import sys
from pathlib import Path

import pytest

from profs_tf.config import Config
from profs_tf.datasets.cub200 import CUB200

TOOLS = Path(__file__).parents[2] / "tools"
sys.path.insert(0, str(TOOLS))

import grid_cost as tool  # noqa: E402


def test_operations_of_a_run():
    # 46 batches of 128 are an epoch of 5,864 images.
    config = Config(dataset="cub200", epochs=3, evaluate_every=2, clustering="best")
    # Before training, after epochs 2 and 3, and the best one again.
    assert tool.operations(config, CUB200, 10) == 10 * (3 * 3 * 46 * 128 + 4 * 5_924)
    short = Config(dataset="cub200", epochs=1, steps_per_epoch=5, batch_size=8, clustering="never")
    assert tool.operations(short, CUB200, 1) == 3 * 5 * 8 + 2 * 5_924


def test_what_conv4_keeps_for_its_gradients():
    # The scaled images; of each block the convolution, what is rectified and what is pooled.
    sides = (32, 16, 8, 4)
    kept = 3 * 32**2 + sum(64 * (2 * side**2 + (side // 2) ** 2) for side in sides)
    assert tool.kept_for_gradients("conv4", 6, 32) == 4 * 6 * kept
    config = Config(backbone="conv4", batch_size=6, image_crop=32, embedding_dim=10)
    weights = 112_832 + (64 + 1) * 10
    assert tool.memory("conv4", config) == 4 * (5 * weights + 6 * kept)


def test_the_paper_s_table_is_that_of_the_experiments_page(monkeypatch, capsys):
    """The columns that need no network: data sets, networks and numbers of runs."""
    monkeypatch.chdir(TOOLS.parent)
    monkeypatch.setattr(tool, "flops", lambda backbone, side: 10**9)
    monkeypatch.setattr(tool, "memory", lambda backbone, config: 10**9)
    assert tool.main([]) == 0
    ours = [line.split(" | ") for line in capsys.readouterr().out.splitlines()]
    page = (TOOLS.parent / "experiments/README.md").read_text("utf-8")
    for cells in ours[2:]:
        (shown,) = [line.split(" | ") for line in page.splitlines() if line.startswith(" | ".join(cells[:2]))]
        assert shown[5] == cells[5]
        # Operations, and so hours, are those of a billion times the column's.
        assert float(shown[6].strip(" |")) == pytest.approx(
            float(cells[6].strip(" |")) * float(shown[2]), rel=0.2, abs=3
        )


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--tflops=0", "--tflops must be > 0 and finite, got 0.0."),
        ("--tflops=nan", "--tflops must be > 0 and finite, got nan."),
        ("--table=zz", "--table must be one of 1; 2, got zz."),
        ("--grid=nothing.yaml", r"--grid must be a file, got .*nothing\.yaml, which does not exist\."),
        ("--grid=experiments/grids", r"--grid must be a file, got .*grids, a folder\."),
        ("--grid=README.md", r"--grid must be a YAML file, got .*README\.md: "),
        (
            "--grid=experiments/grids/cars_part_head.yaml",
            "--grid must train networks, whose passes are counted, got `train_layers` head",
        ),
        (
            "--grid=experiments/grids/emoji_table.yaml",
            "--grid must train on cub200, cars196, sop, .* got emoji",
        ),
    ],
)
def test_arguments_are_checked_before_a_network_is_built(argument, message, monkeypatch, capsys):
    monkeypatch.chdir(TOOLS.parent)
    for name in ("flops", "memory"):
        monkeypatch.setattr(tool, name, None)
    assert tool.main([argument]) == 2
    output, errors = capsys.readouterr()
    assert (output, errors.count("\n")) == ("", 1)
    assert re.match(f"grid_cost: {message}", errors)
