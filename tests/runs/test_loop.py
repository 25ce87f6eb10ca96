import io
import sys

import numpy as np
import pytest
import tensorflow as tf

from profs_tf.runs.loop import progress_callbacks, progress_for_output


@pytest.mark.parametrize(
    ("asked", "to_file", "to_terminal"),
    [("bar", "line", "bar"), ("tqdm", "line", "tqdm"), ("line", "line", "line"), ("none", "none", "none")],
)
def test_bars_become_lines_in_a_file(asked, to_file, to_terminal, monkeypatch):
    monkeypatch.setattr("sys.stdout", io.StringIO())
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert progress_for_output(asked) == to_file
    monkeypatch.setattr("profs_tf.runs.loop.is_interactive", lambda stream: True)
    assert progress_for_output(asked) == to_terminal


def test_without_tensorflow_addons_tqdm_shows_each_epoch(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tensorflow_addons.callbacks", None)
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(np.ones((8, 2)), np.ones(8), 2, epochs=2, verbose=0, callbacks=progress_callbacks("tqdm"))
    shown = capsys.readouterr().err
    assert "Epoch 1/2: 100%" in shown
    assert "Epoch 2/2: 100%" in shown
    assert "4/4" in shown
    assert "loss=" in shown
