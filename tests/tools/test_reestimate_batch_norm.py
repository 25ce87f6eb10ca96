import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.forked_process import run_forked

TOOLS = Path(__file__).parents[2] / "tools"
sys.path.insert(0, str(TOOLS))

from reestimate_batch_norm import reestimate  # noqa: E402


def test_statistics_become_means_over_the_batches():
    random = np.random.default_rng(0)
    batches = [random.normal(batch, 1 + batch, [8, 3, 3, 2]).astype("float32") for batch in range(5)]
    inner = tf.keras.Sequential([tf.keras.layers.BatchNormalization(fused=False)])
    model = tf.keras.Sequential([tf.keras.Input([3, 3, 2]), inner])
    reestimate(model, batches)
    layer = inner.layers[0]
    np.testing.assert_allclose(layer.moving_mean, np.mean([x.mean((0, 1, 2)) for x in batches], 0), rtol=1e-5)
    np.testing.assert_allclose(
        layer.moving_variance, np.mean([x.var((0, 1, 2)) for x in batches], 0), rtol=1e-5
    )


def test_a_network_without_batch_normalization_is_refused():
    with pytest.raises(SystemExit, match="`runs` must have batch normalization"):
        reestimate(tf.keras.Sequential([tf.keras.Input([2]), tf.keras.layers.Dense(1)]), [])


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
