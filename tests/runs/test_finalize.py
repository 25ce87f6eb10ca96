import dataclasses
import json
import shutil

import pytest
import tensorflow as tf

from profs_tf.config import Config
from profs_tf.runs.directory import RunFolder
from profs_tf.runs.finalize import best_epoch, export_best


def test_counts_the_test_classes_that_trained(finished_run):
    written = json.loads(finished_run.run.folder.metrics.read_text())
    assert written == finished_run.metrics
    assert written["shared_classes"] == 2
    assert written["steps"] == 2
    assert "\nOn 4 classes, 2 of which trained, in percent:" in finished_run.printed
    assert "unseen classes" not in finished_run.printed


def test_exports_the_best_embedder_and_its_curves(finished_run):
    folder = finished_run.run.folder
    assert "serving_default" in tf.saved_model.load(str(folder.embedder)).signatures
    assert folder.curves.exists()
    assert {"recall@1", "nmi", "f1"} <= set(finished_run.metrics["best"])


def test_without_export_names_the_command_that_exports_later(finished_run, tmp_path, capsys):
    folder = RunFolder(tmp_path / "run")
    shutil.copytree(finished_run.run.folder.best_weights.parent, folder.best_weights.parent)
    config = dataclasses.replace(finished_run.run.config, export=False)
    run = dataclasses.replace(finished_run.run, config=config, folder=folder)
    assert export_best(run, finished_run.callbacks) == finished_run.metrics
    assert folder.metrics.exists()
    assert not folder.embedder.exists()
    command = f"python -m profs_tf.export --run_dir={folder.path} --output={folder.embedder}"
    assert f"\nEmbedder: {command} writes it\n" in capsys.readouterr().out
    # One that was exported before is of an earlier best epoch.
    folder.embedder.mkdir()
    export_best(run, finished_run.callbacks)
    assert "serving_default" in tf.saved_model.load(str(folder.embedder)).signatures
    assert f"\nEmbedder: {folder.embedder}\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("values", "recall", "start", "end"),
    [
        ({}, "0.4", "training made it worse.", "Try a --learning_rate below 1e-05, --freeze_batch_norm=stat"),
        (
            {"freeze_batch_norm": "statistics", "loss": "triplet"},
            "0.5",
            "training did not improve it.",
            "Try a --learning_rate other than 1e-05, --train_layers=head, or another --loss than triplet.",
        ),
    ],
)
def test_an_untrained_network_that_is_best_is_named_with_what_may_help(values, recall, start, end):
    rows = [{"epoch": "0", "recall@1": "0.5"}, {"epoch": "1"}, {"epoch": "2", "recall@1": recall}]
    text = best_epoch(Config(**values), {"epoch": 0, "recall@1": 0.5}, rows)
    assert text.startswith(f"0 (the network before training): {start} The embedder is exported untrained.")
    assert end in text
    kept = best_epoch(Config(**values, export=False), {"epoch": 0, "recall@1": 0.5}, rows)
    assert kept == text.replace("The embedder is exported untrained.", "What is kept is untrained.")


def test_a_trained_epoch_that_is_best_is_named():
    assert best_epoch(Config(epochs=9), {"epoch": 3, "recall@1": 0.5}, []) == "3 of 9."
