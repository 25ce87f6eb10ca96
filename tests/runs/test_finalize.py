import json

import tensorflow as tf


def test_counts_the_test_classes_that_trained(finished_run):
    written = json.loads(finished_run.run.folder.metrics.read_text())
    assert written == finished_run.metrics
    assert written["shared_classes"] == 2
    assert written["steps"] == 2
    assert "On 4 classes, 2 of which trained, in percent:" in finished_run.printed
    assert "unseen classes" not in finished_run.printed


def test_exports_the_best_embedder_and_its_curves(finished_run):
    folder = finished_run.run.folder
    assert "serving_default" in tf.saved_model.load(str(folder.embedder)).signatures
    assert folder.curves.exists()
    assert {"recall@1", "nmi", "f1"} <= set(finished_run.metrics["best"])
