import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from profs_tf.config import Config
from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.preprocessing import Preprocessing
from tests.helpers.forked_process import run_forked

TOOLS = Path(__file__).parents[2] / "tools"
sys.path.insert(0, str(TOOLS))

import reestimate_batch_norm as tool  # noqa: E402


def test_statistics_become_means_over_the_batches():
    random = np.random.default_rng(0)
    batches = [random.normal(batch, 1 + batch, [8, 3, 3, 2]).astype("float32") for batch in range(5)]
    inner = tf.keras.Sequential([tf.keras.layers.BatchNormalization(fused=False)])
    model = tf.keras.Sequential([tf.keras.Input([3, 3, 2]), inner])
    tool.reestimate(model, batches)
    layer = inner.layers[0]
    np.testing.assert_allclose(layer.moving_mean, np.mean([x.mean((0, 1, 2)) for x in batches], 0), rtol=1e-5)
    np.testing.assert_allclose(
        layer.moving_variance, np.mean([x.var((0, 1, 2)) for x in batches], 0), rtol=1e-5
    )


def test_a_network_without_batch_normalization_is_refused():
    with pytest.raises(ValueError, match="RUN must have batch normalization that"):
        tool.reestimate(tf.keras.Sequential([tf.keras.Input([2]), tf.keras.layers.Dense(1)]), [])


def test_all_arguments_are_checked_before_the_first_run_is_evaluated(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tool, "recalls", None)
    for name, files in (("finished", ["config.json", "metrics.json"]), ("stopped", ["config.json"])):
        (tmp_path / name).mkdir()
        for file in files:
            (tmp_path / name / file).touch()
    for name, missing in (("nothing", "config.json"), ("stopped", "metrics.json")):
        assert tool.main([str(tmp_path / "finished"), str(tmp_path / name)]) == 2
        message = f"RUN must be the folder of a finished run, got {tmp_path / name} without {missing}."
        assert capsys.readouterr().err.startswith(f"reestimate_batch_norm: {message}")
    for batches in (0, -3):
        assert tool.main([str(tmp_path / "finished"), f"--batches={batches}"]) == 2
        output, errors = capsys.readouterr()
        assert errors == (
            f"reestimate_batch_norm: --batches must be a whole number >= 1, got {batches}. "
            "Leave it out for 100.\n"
        )
        assert not output


def test_layers_that_training_leaves_are_refused_if_there_are_no_others():
    frozen = tf.keras.layers.BatchNormalization(trainable=False)
    model = tf.keras.Sequential([tf.keras.Input([2]), frozen])
    with pytest.raises(ValueError, match="RUN must have batch normalization that training changes"):
        tool.reestimate(model, [])


@pytest.mark.parametrize(
    ("options", "got", "cure"),
    [
        ({"freeze_batch_norm": "statistics"}, "--freeze_batch_norm=statistics", "--freeze_batch_norm=none"),
        ({"freeze_batch_norm": "all"}, "--freeze_batch_norm=all", "--freeze_batch_norm=none"),
        # "auto" stands for the statistics of such weights.
        ({"pretrained": "weights.npz"}, "--freeze_batch_norm=statistics", "--freeze_batch_norm=none"),
        ({"train_layers": "head"}, "--train_layers=head", "--train_layers=all"),
        (
            {"freeze_batch_norm": "all", "train_layers": "head"},
            "--freeze_batch_norm=all --train_layers=head",
            "--freeze_batch_norm=none --train_layers=all",
        ),
    ],
)
def test_runs_whose_statistics_are_frozen_are_refused(options, got, cure, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tool, "recalls", None)
    (tmp_path / "config.json").write_text(Config(dataset="emoji", **options).to_json())
    (tmp_path / "metrics.json").touch()
    assert tool.main([str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        "reestimate_batch_norm: RUN must have updated the statistics of batch normalization in training, "
        f"got {tmp_path} with {got}. Train one with {cure}.\n"
    )


def test_queries_are_searched_in_the_gallery_alone():
    # Both queries' nearest image is the other one, of their class; in the gallery it is of another class.
    grays = np.uint8([10, 12, 60, 20])
    test = ImageList(
        np.tile(grays[:, None, None, None], [1, 4, 4, 3]),
        [0, 0, 0, 1],
        ("a", "b"),
        is_query=[True, True, False, False],
    )
    embedder = tf.keras.Sequential([tf.keras.Input([4, 4, 3]), tf.keras.layers.GlobalAveragePooling2D()])
    assert tool.recall(embedder, test, Preprocessing(resize=4, crop=4)) == 0.0


@pytest.mark.slow
def test_the_tool_evaluates_a_run_before_and_after(tmp_path):
    folder = tmp_path / "emoji"
    words = ["--flagfile=experiments/emoji.flags", "--epochs=1", "--steps_per_epoch=5", "--noexport"]
    words += ["--method=profs_hncm", f"--output_dir={folder}", "--clustering=never"]
    trained = run_forked("-m", "profs_tf.train", *words, cwd=TOOLS.parent)
    assert trained.returncode == 0, trained.stderr
    result = run_forked(TOOLS / "reestimate_batch_norm.py", folder, "--batches=3")
    assert result.returncode == 0, result.stderr
    _, line, mean = result.stdout.splitlines()
    name, before, after, change = line.split()
    assert (name, mean.split()) == ("emoji", ["mean", change])
    assert float(after) - float(before) == pytest.approx(float(change), abs=0.011)
    assert before in trained.stdout
