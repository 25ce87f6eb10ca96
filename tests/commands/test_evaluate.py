import csv
import json

import numpy as np
import pytest

from tests.commands.run_commands import run_as_typed, run_evaluate, run_in_this_process


@pytest.fixture(scope="module")
def evaluated(whole_run, pictures, tmp_path_factory):
    """The folder of the report and the saved embeddings, and the output."""
    output = tmp_path_factory.mktemp("evaluated")
    done = run_as_typed(
        "evaluate",
        f"--embedder={whole_run[0] / 'embedder'}",
        f"--dataset=folder:{pictures}",
        "--ks=1,2",
        f"--save_embeddings={output / 'e.npy'}",
        f"--output_json={output / 'report.json'}",
    )
    return output, done


def test_gives_the_training_runs_best_figures(evaluated, whole_run, pictures):
    (output, done), (folder, _) = evaluated, whole_run
    # Its output is a file here: no bar that is redrawn.
    assert not {"\r", "\b"} & set(done.stdout + done.stderr)
    best = json.loads((folder / "metrics.json").read_text())["best"]
    report = json.loads((output / "report.json").read_text())
    for name in ("recall@1", "recall@2"):
        assert f"{report[name]:.4f}" == f"{best[name]:.4f}"
        assert f"{100 * best[name]:.2f}" in done.stdout
    assert f"By the run's configuration: folder:{pictures}." in done.stdout
    assert report["nmi"] == pytest.approx(best["nmi"], abs=1e-6)
    assert report["f1"] == pytest.approx(best["f1"], abs=1e-6)


def test_saved_embeddings_give_the_same_report(evaluated, pictures, tmp_path):
    output, _ = evaluated
    embedded = json.loads((output / "report.json").read_text())
    # The labels are in e.csv, too.
    (tmp_path / "l.txt").write_text(
        "".join(f"class {number:02}\n" for number in range(6, 12) for _ in range(5))
    )
    with open(output / "e.csv", encoding="utf-8", newline="") as file:
        saved = list(csv.DictReader(file))
    assert [row["label"] for row in saved] == (tmp_path / "l.txt").read_text().splitlines()
    assert saved[0]["name"] == f"{pictures}/class 06/0.png"
    read = run_evaluate(
        tmp_path,
        f"--embeddings={output / 'e.npy'}",
        f"--labels={tmp_path / 'l.txt'}",
        "--map_at_r",
        "--intervals",
        f"--class_csv={tmp_path / 'classes.csv'}",
    )
    assert {name: read[name] for name in embedded} == embedded
    assert read["recall@1_low"] <= read["recall@1"] <= read["recall@1_high"]
    assert 0 < read["map@r"] <= read["r_precision"] <= 1
    with open(tmp_path / "classes.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert sorted(row["class"] for row in rows) == [f"class {number:02}" for number in range(6, 12)]
    assert np.mean([float(row["recall@1"]) for row in rows]) == pytest.approx(read["recall@1"])
    assert [row["recall@1"] for row in rows] == sorted(row["recall@1"] for row in rows)


def test_a_gallery_is_searched(tmp_path):
    np.save(tmp_path / "q.npy", np.eye(3, dtype=np.float32))
    np.save(tmp_path / "g.npy", np.eye(3, dtype=np.float32)[[0, 1, 1]] + 0.01)
    np.save(tmp_path / "ql.npy", np.array(["a", "b", "c"]))
    np.save(tmp_path / "gl.npy", np.array(["a", "a", "b"]))
    report = run_evaluate(
        tmp_path,
        *(
            f"--{flag}={tmp_path / name}.npy"
            for flag, name in (
                ("embeddings", "q"),
                ("labels", "ql"),
                ("gallery_embeddings", "g"),
                ("gallery_labels", "gl"),
            )
        ),
        "--noclustering",
    )
    assert report["left_out"] == 1
    assert (report["recall@1"], report["recall@2"]) == (0.5, 1.0)  # "b" is as near to the wrong twin


def test_labels_of_embed_are_read(tmp_path):
    """Its shards have name, label and checksum."""
    np.save(tmp_path / "e.npy", np.eye(4, dtype=np.float32))
    (tmp_path / "l.csv").write_text("name,label,checksum\n1,a,\n2,a,\n3,b,\n4,b,\n")
    report = run_evaluate(
        tmp_path, f"--embeddings={tmp_path}/e.npy", f"--labels={tmp_path}/l.csv", "--ks=1", "--noclustering"
    )
    assert report["left_out"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--embedder must name the folder of a SavedModel, or --embeddings and --labels files."),
        (["--embedder=x", "--labels=y"], "--labels must be left out with --embedder, got y."),
        (
            ["--embeddings={0}/pickled.npy", "--labels={0}/l.txt"],
            "--embeddings must be a .npy file of numbers",
        ),
        (
            ["--embeddings={0}/missing.npy", "--labels={0}/l.txt"],
            "evaluate: --embeddings must be a file that can be read, got {0}/missing.npy: No such file or "
            "directory. Check the path.",
        ),
        (
            ["--embeddings={0}/e.npy", "--labels={0}/missing.txt"],
            "--labels must be a file that can be read, got {0}/missing.txt",
        ),
        (
            ["--embeddings={0}/e.npy", "--labels={0}/blank.txt"],
            "--labels must have a label for each embedding, got none in row 2 of {0}/blank.txt. Remove",
        ),
        *(
            (
                ["--embeddings={0}/e.npy", "--labels={0}/l.txt", f"--{name}={value}"],
                f"--{name} must be left out with --embeddings, got {value}.",
            )
            for name, value in (("dataset", "emoji"), ("split", "train"), ("save_embeddings", "x.npy"))
        ),
        (["--noclustering=1"], "clustering"),
        (["--embedder={0}"], "--embedder must be the folder of a SavedModel"),
        (["--embedder={0}", "--batch_size=0"], "--batch_size must be >= 1, got 0."),
        (["--embedder={0}", "--batch_size=-3"], "--batch_size must be >= 1, got -3."),
        (["--embedder={0}", "--seed=-1"], "--seed must be >= 0, got -1."),
        (
            ["--embedder={0}", "--save_embeddings=/proc/e.npy"],
            "--save_embeddings must be writable",
        ),
        (["--embedder={0}", "--output_json={0}/no/r.json"], "--output_json must be a file in a folder that"),
        (
            ["--embedder={0}", "--class_csv={0}"],
            "--class_csv must be a file in a folder that exists, got {0}",
        ),
        (["--embedder={0}", "--ks=9999"], "--ks must be <= "),
        (["--embedder={0}", "--split=validation"], "--split validation needs the fraction"),
        (
            ["--embedder={0}", "--dataset=csv:{0}/no.csv"],
            "--dataset must be a CSV file with one line per image, got {0}/no.csv: No such file or",
        ),
        (["--embeddings={0}/nan.npy", "--labels={0}/l.txt", "--ks=1"], "--embeddings must be finite"),
        (["--embeddings={0}/e.npy", "--labels={0}/l.txt", "--ks=4"], "--ks must be <= 3"),
        (
            ["--embeddings={0}/e.npy", "--labels={0}/l.txt", "--ks=0"],
            "--ks must be a whole number >= 1, got 0",
        ),
        (["--embeddings={0}/e.npy", "--labels={0}/short.txt", "--ks=1"], "--labels must"),
        (["--embeddings={0}/e.npy", "--labels={0}/short.csv", "--ks=1"], "--labels must be as many as"),
        (
            ["--embeddings={0}/e.npy", "--labels={0}/parts.csv"],
            "--labels must have query or gallery in its col",
        ),
        (
            ["--embeddings={0}/e.npy", "--labels={0}/l.csv"],
            "--labels must have a column label if it is a .csv",
        ),
        (["--embeddings={0}/e.npy", "--labels={0}/no.csv"], "--labels must be a file that can be read"),
        (["--embeddings={0}/empty.npy", "--labels={0}/l.txt"], "--embeddings must be a .npy file of numbers"),
        (["--embeddings={0}/e.npz", "--labels={0}/l.txt"], "--embeddings must be a .npy file of numbers"),
        (
            ["--embeddings={0}/e.npy", "--labels={0}/l.txt", "--gallery_labels={0}/l.txt"],
            "--gallery_labels must be left out without --gallery_embeddings",
        ),
        (["--embedder={0}", "--save_embeddings={0}/l"], "--save_embeddings must leave other files alone"),
        (
            ["--embedder={0}", "--save_embeddings={0}/new.npy", "--class_csv={0}/new.csv"],
            "--save_embeddings must leave other files alone",
        ),
    ],
)
def test_bad_use_is_refused(arguments, message, tmp_path, monkeypatch, capsys):
    np.save(tmp_path / "e.npy", np.eye(4, dtype=np.float32))
    np.save(tmp_path / "nan.npy", np.full([4, 4], np.nan, np.float32))
    np.save(tmp_path / "pickled.npy", np.array([{}, {}], dtype=object), allow_pickle=True)
    (tmp_path / "l.txt").write_text("a\na\nb\nb\n")
    (tmp_path / "blank.txt").write_text("a\n\nb\nb\n")
    np.savez(tmp_path / "e.npz", e=np.eye(4, dtype=np.float32))
    (tmp_path / "empty.npy").touch()
    (tmp_path / "short.txt").write_text("a\na\nb\n")
    (tmp_path / "short.csv").write_text("label,split\na,query\na,gallery\nb,gallery\n")
    (tmp_path / "parts.csv").write_text("label,split\na,query\na,gallery\nb,train\nb,query\n")
    (tmp_path / "l.csv").write_text("path,class\na,b\n")
    words = [argument.format(tmp_path) for argument in arguments]
    done = run_in_this_process("evaluate", monkeypatch, capsys, *words, expected=2)
    assert message.format(tmp_path) in done.err
