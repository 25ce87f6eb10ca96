"""Every backbone trains, and the table's figures of one network against sums made by hand."""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from profs_tf import backbones

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import backbone_table as tool

# The counts in the backbones' docstrings; KerasCV's of ResNet-18, less the moving statistics.
WEIGHTS = {
    "bn_inception": 10_270_240,
    "conv4": 112_832,
    "efficientnet_lite0": 3_371_008,
    "efficientnet_lite1": 4_135_680,
    "efficientnet_lite2": 4_811_072,
    "googlenet": 5_973_552,
    "inception_v1": 5_592_624,
    "inception_v2": 10_153_336,
    "resnet50": 23_534_592,
    tool.KERAS_CV: 11_186_112 - 9_600,
}


def test_the_table_has_every_backbone():
    assert sorted(WEIGHTS) == sorted([*backbones.names(), tool.KERAS_CV])
    assert tool.parse_arguments([]).backbones.split(",") == [*backbones.names(), tool.KERAS_CV]


def test_the_preset_is_keras_cvs_resnet_18(tmp_path):
    network = backbones.get(tool.write_preset(str(tmp_path / "preset")))((64, 64, 3))
    weights = sum(np.prod(variable.shape) for variable in network.trainable_variables)
    assert weights == WEIGHTS[tool.KERAS_CV]
    assert network.count_params() == 11_186_112


def test_flops_of_conv4():
    sides, channels = [224, 112, 56, 28], [3, 64, 64, 64]
    convolutions = sum(2 * 9 * inputs * 64 * side**2 for side, inputs in zip(sides, channels))
    assert tool.flops("conv4") == pytest.approx(convolutions, rel=0.005)
    assert tool.flops("conv4") >= convolutions
    assert tool.flops("conv4", 112) == pytest.approx(tool.flops("conv4") / 4, rel=1e-3)


@pytest.mark.slow
def test_a_weight_that_is_not_finite_is_noticed(monkeypatch):
    arguments = tool.parse_arguments(["--steps=1", "--image_size=32"])
    trained = tool.train("conv4", "conv4", arguments)
    assert trained.finite
    assert trained.weights == WEIGHTS["conv4"]
    assert trained.losses.shape == (1,)
    assert [part.shape[0] for part in trained.batches[0]] == [8, 8, 8]
    assert trained.batches[0][0].shape[1:] == (32, 32, 3)

    def poisoned(*args, **kwargs):
        model = build_model(*args, **kwargs)
        # Training does without the moving statistics: its loss stays finite.
        model.embedder.get_layer("conv4").get_layer("batch_norm_2").moving_mean.assign(np.full(64, np.inf))
        return model

    build_model = tool.factory.build_model
    monkeypatch.setattr(tool.factory, "build_model", poisoned)
    trained = tool.train("conv4", "conv4", arguments)
    assert np.isfinite(trained.losses).all()
    assert not trained.finite


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_twenty_steps_of_every_backbone_are_finite():
    command = [sys.executable, tool.__file__, "--repeats=1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("| `")]
    assert {row[0].strip("`"): int(row[1].replace(",", "")) for row in rows} == WEIGHTS
    assert all(math.isfinite(float(text)) for row in rows for text in row[2:])
    assert "20 steps each: all finite" in done.stdout
