"""A run on queries and their gallery that begins where another was best, and the commands on its embedder."""

import csv
import json

import pytest

from profs_tf.serving.loaded import embedder_sha256
from tests.commands.run_commands import SHORT, run_command, run_evaluate
from tests.commands.run_state import log_rows


@pytest.fixture(scope="module")
def catalogue(pictures, tmp_path_factory):
    """A folder with train, query and gallery, of the same pictures: one of each test class is a query."""
    root = tmp_path_factory.mktemp("catalogue")
    for source in sorted(pictures.rglob("*.png")):
        number = int(source.parent.name.split()[-1])
        part = "train" if number < 6 else "query" if source.stem == "0" else "gallery"
        target = root / part / source.parent.name / source.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
    return root


@pytest.fixture(scope="module")
def run(catalogue, whole_run, train_arguments, tmp_path_factory):
    """The folder of a baseline run, and its output. With so low a rate no weight changes."""
    folder = tmp_path_factory.mktemp("queries") / "run"
    options = (
        f"--dataset=folder:{catalogue}",
        "--method=baseline",
        f"--initial_run={whole_run[0]}",
        "--learning_rate=1e-30",
        "--freeze_batch_norm=statistics",
        "--map_at_r",
        *SHORT,
    )
    return folder, run_command("train", *train_arguments, *options, f"--output_dir={folder}").stdout


def test_a_baseline_that_does_not_improve_on_another_run_s_best_is_exported_as_it_was(run, whole_run):
    folder, printed = run
    assert f"\nweights: of the best epoch of the run {whole_run[0]}" in printed
    origin = (folder / "initial_weights.txt").read_text()
    assert origin == f"of the best epoch of the run {whole_run[0]}, whose own were random (seed 0)\n"
    assert "M = 1 steps a projection, lambda = 0" in printed
    rows = log_rows(folder)
    assert float(rows[1]["proximal_penalty"]) == 0.0
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["best"]["epoch"] == 0
    assert metrics["best"]["recall@1"] == metrics["untrained"]["recall@1"] == float(rows[0]["recall@1"])
    assert "Best epoch: 0 (the network before training): training did not improve it." in printed
    assert embedder_sha256(folder / "embedder") == embedder_sha256(whole_run[0] / "embedder")


def test_queries_are_searched_in_their_gallery_by_every_command(run, catalogue, tmp_path):
    folder, printed = run
    assert "unseen: 30 images of 6 classes (6 queries, the others their gallery)" in printed
    best = json.loads((folder / "metrics.json").read_text())["best"]
    assert best["recall@1"] * 6 == pytest.approx(round(best["recall@1"] * 6))
    assert 0 < best["map@r"] <= best["r_precision"] <= 1

    embeddings = f"--save_embeddings={tmp_path / 'e.npy'}"
    report = run_evaluate(tmp_path, f"--embedder={folder / 'embedder'}", embeddings, "--map_at_r")
    for name in ("recall@1", "recall@2", "map@r", "r_precision"):
        assert f"{report[name]:.4f}" == f"{best[name]:.4f}"
    with open(tmp_path / "e.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["split"] for row in rows] == ["query"] * 6 + ["gallery"] * 24
    assert rows[0]["name"] == f"{catalogue}/query/class 06/0.png"
    files = f"--embeddings={tmp_path / 'e.npy'}", f"--labels={tmp_path / 'e.csv'}"
    assert run_evaluate(tmp_path, *files, "--map_at_r") == report

    page = tmp_path / "page.html"
    run_command("gallery", f"--embedder={folder / 'embedder'}", f"--output={page}", "--k=3")
    text = page.read_text("utf-8")
    assert "6 queries with their 3 nearest among all other images of the gallery." in text
    assert f"Recall@1 {100 * report['recall@1']:.2f} %" in text
