"""Which runs of a grid are trained, in which order, and what is written of them."""

import json
import re

import pytest
import run_grid
from grid_runs.grid_file import read_grid, selected

from tests.tools.grid_place import GRID, NAMES, ROOT, Place


def test_trains_every_run_once_and_writes_the_paper_s_columns_first(place, capfd):
    assert place.run() == 0
    assert place.calls() == [(name, "new") for name in NAMES]
    rows = place.rows()
    assert tuple(rows[0])[:5] == ("table", "method", "dataset", "metric", "percent")
    with open(ROOT / "experiments/paper_results.csv") as file:
        assert tuple(rows[0])[:5] == tuple(file.readline().strip().split(","))
    assert [row["metric"] for row in rows[:4]] == ["NMI", "F1", "R@1", "R@2"]
    recalls = {row["run"]: row for row in rows if row["metric"] == "R@1"}
    assert list(recalls) == NAMES
    assert [float(row["percent"]) for row in recalls.values()] == [50.0, 50.0, 51.0, 51.0]
    one, two = recalls["small-one-seed1"], recalls["small-two-seed1"]
    assert (one["table"], one["method"], one["dataset"], one["seed"]) == ("1", "Margin-Hard", "small", "1")
    assert (one["variant"], two["variant"], two["split"], two["setting"]) == ("baseline", "profs", "test", "")
    assert (float(one["proximal_weight"]), float(two["proximal_weight"])) == (0.0, 1e-3)
    assert (two["steps_per_projection"], two["steps"], two["best_epoch"]) == ("9", "20", "2")
    # The median of 100, 200 and 300 images a second, at 6 images a step.
    assert float(two["step_milliseconds"]) == pytest.approx(1000 * 6 / 200, abs=0.01)
    # Of 11, 21 and 31 percent; the untrained network's row and the clustering of the best epoch do not count.
    last = {row["metric"]: row["percent"] for row in rows if row["run"] == "small-two-seed1"}
    assert last["R@1 last3"] == "21.0000"
    assert set(last) == {"NMI", "F1", "R@1", "R@2", "R@1 last3"}
    assert re.fullmatch(r"[0-9a-f]{40}(\+changes)?", two["commit"])
    assert int(two["cores"]) >= 1
    assert two["cpu"]
    assert two["tensorflow"].startswith("2.")
    assert float(two["cpu_seconds"]) > 0
    output = capfd.readouterr().out
    assert "[4/4] small-two-seed1: NMI 25.00, F1 12.50, R@1 51.00, R@2 75.00" in output
    assert "nothing left" in output


def test_finished_runs_are_skipped_and_nothing_is_written_again(place):
    assert place.run() == 0
    before = place.results.stat().st_mtime_ns, place.results.read_bytes()
    assert place.run() == 0
    assert place.calls() == [(name, "new") for name in NAMES]
    assert (place.results.stat().st_mtime_ns, place.results.read_bytes()) == before


@pytest.mark.parametrize("flags", [[], ["--keep_checkpoints"]])
def test_checkpoints_of_finished_runs_are_removed_unless_they_are_to_stay(place, flags):
    assert place.run(*flags) == 0
    kept = sorted(path.parent.name for path in place.runs.glob("*/checkpoints"))
    assert kept == (sorted(NAMES) if flags else [])
    assert sorted(path.parent.name for path in place.runs.glob("*/metrics.json")) == sorted(NAMES)
    # What a grid kept that should not have is removed by the next one.
    assert place.run() == 0
    assert not list(place.runs.glob("*/checkpoints"))


def test_the_home_folder_may_be_written_as_in_a_shell(monkeypatch):
    monkeypatch.setenv("HOME", "/home/one")
    parsed = run_grid.parse_arguments(["--grid=~/grid.yaml", "--runs_dir=~/runs"])
    assert (str(parsed.grid), str(parsed.runs_dir)) == ("/home/one/grid.yaml", "/home/one/runs")


def test_runs_are_selected_by_table_and_setting(monkeypatch):
    monkeypatch.chdir(ROOT)
    runs = read_grid(ROOT / "experiments/grids/paper.yaml")
    of_table = selected(runs, "2", "default")
    assert {run.table for run in of_table} == {"2"}
    # Seven rows, three data sets, three seeds.
    assert len(of_table) == 7 * 3 * 3
    assert not any("batch_norm" in run.name for run in of_table)
    trained = selected(runs, setting="batch_norm=trained")
    assert {run.config(ROOT).freeze_batch_norm for run in trained} == {"none"}
    assert len(trained) == len(runs) // 2
    with pytest.raises(ValueError, match="`table` must be one of 1; 2, got 3"):
        selected(runs, "3")
    with pytest.raises(ValueError, match="`setting` must be one of default; batch_norm=trained, got M=1"):
        selected(runs, None, "M=1")


def test_a_run_that_filled_in_what_was_left_open_is_finished(place, capsys):
    assert place.run() == 0
    path = place.runs / NAMES[0] / "config.json"
    filled = {"freeze_batch_norm": "none", "head_init": "random", "pretrained": "folder/weights.ckpt"}
    path.write_text(json.dumps({**json.loads(path.read_text()), **filled}))
    assert place.run() == 0
    assert len(place.calls()) == len(NAMES)
    # What the grid asks for must be what the run has.
    assert place.run("--flag=--head_init=pca") == 2
    assert "`head_init` must be 'random' as in the run" in capsys.readouterr().err


def test_lines_that_a_kill_kept_from_the_results_are_added(place):
    assert place.run() == 0
    whole = place.rows()
    place.results.unlink()
    assert place.run("--only=one") == 0
    assert place.rows() == [row for row in whole if "one" in row["run"]]


def test_a_failed_run_is_recorded_and_the_others_go_on(place, capfd):
    (place.control / "fail_0").touch()
    assert place.run() == 1
    assert place.calls() == [(name, "new") for name in NAMES]
    assert {row["run"] for row in place.rows()} == set(NAMES[2:])
    last = place.record("small-two-seed0")["attempts"][-1]
    assert last["exit_code"] == 3
    assert last["log_tail"][-1] == "the reason why"
    output = capfd.readouterr().out
    assert "FAILED with exit code 3" in output
    assert "2 runs failed: small-one-seed0, small-two-seed0" in output
    (place.control / "fail_0").unlink()
    assert place.run() == 0
    assert {row["run"] for row in place.rows()} == set(NAMES)


def test_a_dry_run_lists_and_does_nothing(place, capsys):
    assert place.run("--dry_run") == 0
    output = capsys.readouterr().out
    assert [line.split()[-1] for line in output.splitlines() if line.startswith("new ")] == NAMES
    assert "--method=baseline --seed=0" in output
    assert not place.runs.exists()
    assert place.run("--only=one-seed0") == 0
    capsys.readouterr()
    assert place.run("--dry_run") == 0
    assert f"finished      {NAMES[0]}\n" in capsys.readouterr().out


def test_other_settings_than_those_of_the_folder_are_refused(place, capsys):
    assert place.run("--only=one-seed0") == 0
    assert place.run("--only=one-seed0", "--flag=--epochs=7") == 2
    assert "`epochs` must be 2 as in the run that" in capsys.readouterr().err
    assert len(place.calls()) == 1


def test_a_folder_that_no_grid_has_made_is_left_alone(place, capsys):
    (place.runs / NAMES[0]).mkdir(parents=True)
    (place.runs / NAMES[0] / "mine.txt").touch()
    assert place.run() == 2
    assert "without its record" in capsys.readouterr().err
    assert (place.runs / NAMES[0] / "mine.txt").exists()


def test_a_data_set_that_is_not_there_is_left_out(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "nothing"))
    data_sets = {"CUB-200-2011": ["--dataset=cub200", "--ks=1,2"], **GRID["data_sets"]}
    place = Place(tmp_path, {**GRID, "data_sets": data_sets})
    monkeypatch.setenv("FAKE_CONTROL", str(place.control))
    assert place.run("--only=one-seed0") == 0
    assert place.calls() == [(NAMES[0], "new")]
    output = capsys.readouterr().out
    assert "CUB-200-2011 is skipped. CUB-200-2011 was not found." in output
    assert "--data_dir=CUB-200-2011=FOLDER" in output
    assert place.run("--only=CUB") == 2


def test_a_pattern_that_no_run_has_is_refused(place, capsys):
    assert place.run("--only=zzz") == 2
    assert "--only must match one of 4 runs, got zzz. One is small-one-seed0." in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--dry_run"]])
def test_a_results_file_of_another_form_is_refused_before_anything_runs(place, more, capsys):
    place.results.parent.mkdir(parents=True, exist_ok=True)
    place.results.write_text("")
    assert place.run(*more) == 2
    assert place.calls() == []
    assert "--results must have the columns" in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--dry_run"]])
@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (
            "--grid=FOLDER/nothing.yaml",
            "--grid must be a file, got FOLDER/nothing.yaml, which does not exist.",
        ),
        ("--grid=FOLDER", "--grid must be a file, got FOLDER, a folder."),
        ("--runs_dir=FOLDER/file", "--runs_dir must be a folder, got FOLDER/file, a file."),
        (
            "--results=FOLDER/file/x.csv",
            "--results must be a file in a folder, got FOLDER/file/x.csv: FOLDER/file",
        ),
        ("--results=FOLDER", "--results must be a file, got FOLDER, a folder."),
    ],
)
def test_a_path_that_cannot_be_is_refused_before_anything_runs(place, argument, message, more, capsys):
    (place.root / "file").touch()
    before = sorted(place.root.rglob("*"))
    assert place.run(argument.replace("FOLDER", str(place.root)), *more) == 2
    output, errors = capsys.readouterr()
    assert (output, errors.count("\n")) == ("", 1)
    assert errors.startswith(f"run_grid: {message.replace('FOLDER', str(place.root))}")
    assert sorted(place.root.rglob("*")) == before


def test_a_wrong_flag_is_refused_before_anything_runs(place, capsys):
    assert place.run("--flag=--epochs=0") == 2
    assert "small-one-seed0: `epochs` must be >= 1, got 0" in capsys.readouterr().err
    assert place.run("--flag=--no_such_flag=1") == 2
    assert place.calls() == []


def test_held_out_classes_are_named_in_the_results(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    place = Place(tmp_path, {**GRID, "seeds": [0], "flags": ["--validation_classes=0.5"]})
    monkeypatch.setenv("FAKE_CONTROL", str(place.control))
    assert place.run() == 0
    assert {row["split"] for row in place.rows()} == {"validation 0.5"}
