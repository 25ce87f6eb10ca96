import json

import pytest
import tensorflow as tf
from conftest import run_command


def test_gives_the_training_runs_best_figures(whole_run, pictures, tmp_path):
    folder, _ = whole_run
    output = tmp_path / "report.json"
    done = run_command(
        "evaluate",
        f"--embedder={folder / 'embedder'}",
        f"--dataset=folder:{pictures}",
        "--ks=1,2",
        f"--output_json={output}",
    )
    best = json.loads((folder / "metrics.json").read_text())["best"]
    report = json.loads(output.read_text())
    for name in ("recall@1", "recall@2"):
        assert f"{report[name]:.4f}" == f"{best[name]:.4f}"
        assert f"{100 * best[name]:.2f}" in done.stdout
    assert report["nmi"] == pytest.approx(best["nmi"], abs=1e-6)
    assert report["f1"] == pytest.approx(best["f1"], abs=1e-6)


def test_a_missing_embedder_is_refused(tmp_path):
    done = run_command("evaluate", f"--embedder={tmp_path}", expected=2)
    assert "`embedder` must be the folder of a SavedModel" in done.stderr


def test_export_gives_the_embedder_that_training_wrote(whole_run, tmp_path):
    folder, _ = whole_run
    output = tmp_path / "exported"
    run_command("export", f"--run_dir={folder}", f"--output={output}")
    images = tf.random.stateless_uniform([3, 24, 24, 3], [1, 2], 0, 256, tf.int32)
    ours, theirs = (
        tf.saved_model.load(str(path)).signatures["uint8_images"](images=tf.cast(images, tf.uint8))[
            "embeddings"
        ]
        for path in (output, folder / "embedder")
    )
    tf.debugging.assert_equal(ours, theirs)
    again = run_command("export", f"--run_dir={folder}", f"--output={output}", expected=2)
    assert "`output` must not exist" in again.stderr
