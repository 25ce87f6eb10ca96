import csv
import fcntl
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

TESTS = Path(__file__).parent
TOOLS = TESTS.parents[1] / "tools"
sys.path.insert(0, str(TOOLS))

import run_grid  # noqa: E402
from grid_runs import locks, machine, results  # noqa: E402
from grid_runs.grid_file import read_grid, selected  # noqa: E402

from tests.helpers.forked_process import ForkedProcess  # noqa: E402

ROOT = TOOLS.parent
FAKE = (sys.executable, str(TESTS / "fake_train.py"))
GRID = {
    "data_sets": {"small": ["--dataset=folder:PICTURES", "--epochs=2", "--ks=1,2"]},
    "rows": {
        "one": {"flags": ["--method=baseline"], "table": 1, "method": "Margin-Hard"},
        "two": {"flags": ["--method=profs"], "table": 1, "method": "M-PROFS"},
    },
    "seeds": [0, 1],
}
NAMES = ["small-one-seed0", "small-two-seed0", "small-one-seed1", "small-two-seed1"]
# Runs a grid in a process of its own, which can be killed.
HARNESS = (
    f"import sys; sys.path.insert(0, {str(TOOLS)!r}); import run_grid; sys.exit(run_grid.main(sys.argv[2:], "
)


def draw_pictures(folder):
    """Eight classes of three pictures."""
    for number in range(8):
        (folder / f"c{number}").mkdir(parents=True)
        for copy in range(3):
            color = (30 * number, 80 * copy, 255 - 30 * number)
            Image.new("RGB", (24, 24), color).save(folder / f"c{number}" / f"{copy}.png")


class Place:
    """A folder with a grid, and the fake's orders."""

    def __init__(self, root, grid):
        self.root, self.control, self.runs = root, root / "control", root / "runs"
        self.results = root / "results.csv"
        self.control.mkdir(exist_ok=True)
        self.grid = root / "grid.yaml"
        draw_pictures(root / "pictures")
        self.grid.write_text(yaml.safe_dump(grid).replace("PICTURES", str(root / "pictures")))
        for run in read_grid(self.grid):
            (self.control / f"{run.name}.json").write_text(run.config(self.runs / run.name).to_json())

    @property
    def arguments(self):
        return [f"--grid={self.grid}", f"--runs_dir={self.runs}", f"--results={self.results}"]

    def run(self, *more):
        return run_grid.main([*self.arguments, *more], FAKE)

    def start(self, command, *more):
        code = f"{HARNESS}command={command!r}))"
        return ForkedProcess("-c", code, "grid", *self.arguments, *more, merged=True)

    def calls(self):
        path = self.control / "calls.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        return [tuple(line.split()[:2]) for line in lines]

    def rows(self):
        with open(self.results, newline="") as file:
            return list(csv.DictReader(file))

    def record(self, name):
        return json.loads((self.runs / f"{name}.json").read_text())


@pytest.fixture
def place(tmp_path, monkeypatch):
    # The tool goes to the repository; this brings the test back.
    monkeypatch.chdir(ROOT)
    made = Place(tmp_path, GRID)
    monkeypatch.setenv("FAKE_CONTROL", str(made.control))
    return made


def wait_for(condition, process=None):
    deadline = time.monotonic() + 300
    while not condition():
        assert process is None or process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.01)


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


def test_ctrl_c_lets_the_runs_at_work_save_and_the_next_grid_goes_on(place):
    for row in GRID["rows"]:
        (place.control / f"hang_{row}").touch()
    process = place.start(FAKE, "--jobs=3")
    wait_for(lambda: len(list(place.runs.glob("*/checkpoints/checkpoint"))) >= 3, process)
    # Time for a fourth to begin, which must not.
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert "Stopped. The same command continues." in output
    assert sorted(place.calls()) == sorted((name, "new") for name in NAMES[:3])
    assert [place.record(name)["attempts"][-1]["exit_code"] for name in NAMES[:3]] == [130] * 3
    assert not place.results.exists()
    for row in GRID["rows"]:
        (place.control / f"hang_{row}").unlink()
    assert place.run() == 0
    assert place.calls()[3:] == [*((name, "resumed") for name in NAMES[:3]), (NAMES[3], "new")]
    assert [len(place.record(name)["attempts"]) for name in NAMES] == [2, 2, 2, 1]
    assert [row["run"] for row in place.rows() if row["metric"] == "F1"] == NAMES
    assert all(float(row["cpu_seconds"]) > 0 for row in place.rows())


def test_after_a_kill_children_stop_and_the_next_grid_resumes_or_begins_anew(place):
    (place.control / "hang_early_one").touch()
    (place.control / "hang_two").touch()
    process = place.start(FAKE, "--jobs=2")
    early, late = (place.runs / name for name in NAMES[:2])
    wait_for((early / "config.json").exists, process)
    wait_for((late / "checkpoints" / "checkpoint").exists, process)
    children = [line.split()[2] for line in (place.control / "calls.txt").read_text().splitlines()]
    process.kill()
    process.communicate()
    wait_for(lambda: not any(Path("/proc", child).exists() for child in children))
    (place.control / "hang_early_one").unlink()
    (place.control / "hang_two").unlink()
    (early / "config.json.part").touch()
    assert place.run() == 0
    assert place.calls()[2:] == [
        (NAMES[0], "new"),
        (NAMES[1], "resumed"),
        (NAMES[2], "new"),
        (NAMES[3], "new"),
    ]
    assert not (early / "config.json.part").exists()
    times = {row["run"]: row["cpu_seconds"] for row in place.rows()}
    # How long the killed attempt took, of which a part is in use, nobody knows.
    assert times[NAMES[1]] == ""
    assert all(float(times[name]) > 0 for name in NAMES if name != NAMES[1])


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


def test_two_grids_do_not_work_at_once(place, monkeypatch, tmp_path):
    path = tmp_path / "results.csv.lock"
    with locks.lock(path), pytest.raises(ValueError, match="`grid` must be the only one at work"):
        locks.lock(path, patience=0.2)
    locks.lock(path, patience=0.0).close()
    monkeypatch.setattr(run_grid, "lock", lambda path: locks.lock(path, patience=0.0))
    with open(path, "a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert place.run() == 2
    assert place.calls() == []


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": None}, "Row|The grid|must be"),
        ({"sedes": [1]}, "must not have sedes"),
        ({"rows": {"one": {"flags": []}}}, "Row one must have method, table"),
        ({"axes": {"M": ["--steps_per_projection=1"]}}, "Axis M must map labels to lists of flags"),
        ({"seeds": [0, 0]}, "once, got twice: small-one-seed0"),
        ({"seeds": 3}, "`seeds` must be a list of whole numbers in .*, got 3"),
        ({"seeds": "012"}, "`seeds` must be a list of whole numbers"),
        ({"rows": ["one"]}, "`rows` must map names"),
        ({"rows": {1: {"flags": [], "table": 1, "method": "A"}}}, "`rows` must map names"),
        ({"rows": {"one": {"flags": None, "table": 1, "method": "A"}}}, "Row one must have a list of texts"),
        (
            {"rows": {"one": {"flags": [], "table": 1, "method": None}}},
            "Row one must have a text as `method`",
        ),
        ({"data_sets": {"small": None}}, "Data set small must have a list of texts as `flags`"),
        ({"flags": "--epochs=1"}, "The grid must have a list of texts as `flags` .*, got '--epochs=1'"),
        # What YAML makes of [--ks=1,2].
        ({"flags": ["--ks=1", 2]}, "quote a flag with a comma"),
        ({"flags": ["--seed=7"]}, "must leave seeds, folders and resuming to the grid .*, got --seed=7"),
        ({"axes": ["M"]}, "`axes` must map names"),
        ({"axes": {"M": {"1": [1]}}}, "M=1 must have a list of texts"),
    ],
)
def test_a_grid_of_another_form_is_refused(tmp_path, capsys, monkeypatch, change, message):
    monkeypatch.chdir(ROOT)
    path = tmp_path / "grid.yaml"
    path.write_text(yaml.safe_dump({**GRID, **change}))
    if change == {"rows": None}:
        path.write_text("- no\n- mapping\n")
    assert run_grid.main([f"--grid={path}", "--dry_run"]) == 2
    assert re.search(message, capsys.readouterr().err)


def test_a_row_named_twice_is_refused(tmp_path, capsys):
    path = tmp_path / "grid.yaml"
    path.write_text("rows:\n  one: {}\n  one: {}\n")
    assert run_grid.main([f"--grid={path}", "--dry_run"]) == 2
    assert re.search("`grid` must be a YAML file, got .*'one' is there twice", capsys.readouterr().err)


def test_a_pattern_that_no_run_has_is_refused(place, capsys):
    assert place.run("--only=zzz") == 2
    assert "`only` must match one of 4 runs, got zzz. One is small-one-seed0." in capsys.readouterr().err


def test_a_results_file_of_another_form_is_refused_before_anything_runs(place, capsys):
    place.results.parent.mkdir(parents=True, exist_ok=True)
    place.results.write_text("")
    assert place.run() == 2
    assert place.calls() == []
    assert "`results` must have the columns" in capsys.readouterr().err


def test_a_wrong_flag_is_refused_before_anything_runs(place, capsys):
    assert place.run("--flag=--epochs=0") == 2
    assert "small-one-seed0: `epochs` must be >= 1, got 0" in capsys.readouterr().err
    assert place.run("--flag=--no_such_flag=1") == 2
    assert place.calls() == []


def test_axes_are_combined_and_what_they_leave_alone_is_not_named(tmp_path):
    path = tmp_path / "grid.yaml"
    axes = {
        "M": {"1": ["--steps_per_projection=1"], "rule": []},
        "lambda": {"0": ["--proximal_weight=0"], "1e-3": []},
    }
    path.write_text(yaml.safe_dump({**GRID, "seeds": [5], "axes": axes}))
    runs = read_grid(path)
    assert [run.setting for run in runs if run.row == "two"] == ["M=1, lambda=0", "M=1", "lambda=0", ""]
    assert runs[0].name == "small-one-M=1_lambda=0-seed5"
    config = runs[4].config(tmp_path)
    assert (config.steps_per_projection, config.proximal_weight, config.seed) == (1, 0.0, 5)


def test_held_out_classes_are_named_in_the_results(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    place = Place(tmp_path, {**GRID, "seeds": [0], "flags": ["--validation_classes=0.5"]})
    monkeypatch.setenv("FAKE_CONTROL", str(place.control))
    assert place.run() == 0
    assert {row["split"] for row in place.rows()} == {"validation 0.5"}


def test_results_of_another_form_are_not_overwritten(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(
        ValueError, match="`results` must have the columns table,method,dataset,metric,percent"
    ):
        results.add_results(path, [])
    assert path.read_text() == "a,b\n1,2\n"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("percent", "nan", "`percent` must be a number from 0 to 100, got 'nan' in line 2"),
        ("percent", "100.5", "`percent` must be a number from 0 to 100"),
        ("percent", "", "`percent` must be a number from 0 to 100"),
        ("seed", "1.5", "`seed` must be a whole number, got '1.5' in line 2"),
        ("metric", "R@x", "`metric` must be NMI, F1 or R@K"),
    ],
)
def test_a_cell_that_is_none_is_refused(tmp_path, name, value, message):
    path = tmp_path / "results.csv"
    cells = {**dict.fromkeys(results.COLUMNS, ""), "seed": "0", "metric": "R@1", "percent": "50", name: value}
    path.write_text(",".join(results.COLUMNS) + "\n" + ",".join(cells.values()) + "\n")
    with pytest.raises(ValueError, match=message):
        results.read_results(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            ",".join(results.COLUMNS).encode() + b"\n1,A,small\n",
            "25 cells a line, got another number in line 2",
        ),
        (b"\xff\xfe\x00", "must be a CSV file"),
    ],
)
def test_a_broken_results_file_is_refused(tmp_path, content, message):
    path = tmp_path / "results.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        results.read_results(path)


def test_a_spreadsheet_s_byte_order_mark_is_read_over(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text("\ufeff" + ",".join(results.COLUMNS) + "\n", encoding="utf-8")
    assert results.read_results(path) == []


def test_a_run_s_lines_are_replaced_where_they_stand(tmp_path):
    path = tmp_path / "results.csv"

    def line(run, percent):
        texts = {"run": run, "seed": "0", "metric": "R@1", "percent": percent}
        return {**dict.fromkeys(results.COLUMNS, ""), **texts}

    results.add_results(path, [line("a", "1"), line("b", "2")])
    results.add_results(path, [line("a", "3")])
    results.add_results(path, [line("c", "4")])
    assert [(row["run"], row["percent"]) for row in results.read_results(path)] == [
        ("a", "3"),
        ("b", "2"),
        ("c", "4"),
    ]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["results.csv"]


def test_the_commit_tells_of_changes(tmp_path):
    def git(*arguments):
        identity = ("-c", "user.name=n", "-c", "user.email=e@example.org")
        subprocess.run(["git", "-C", tmp_path, *identity, *arguments], check=True, capture_output=True)

    assert machine.describe_commit(tmp_path / "nowhere") == "unknown"
    git("init")
    (tmp_path / "file").write_text("1")
    git("add", ".")
    git("commit", "-m", "One")
    clean = machine.describe_commit(tmp_path)
    assert re.fullmatch("[0-9a-f]{40}", clean)
    (tmp_path / "file").write_text("2")
    assert machine.describe_commit(tmp_path) == f"{clean}+changes"


def real_place(root, epochs):
    """A grid of one small real training."""
    small = (
        "--backbone=conv4 --embedding_dim=8 --image_resize=24 --batch_size=12 --ks=1,2 --steps_per_epoch=2 "
        f"--epochs={epochs} --evaluate_every={epochs} --learning_rate=1e-3 --cache=memory"
    )
    grid = {
        "data_sets": {"small": ["--dataset=folder:PICTURES", *small.split()]},
        "rows": {"margin": {"flags": ["--method=profs"], "table": 1, "method": "M-PROFS"}},
        "seeds": [3],
    }
    return Place(root, grid), root / "runs" / "small-margin-seed3"


def assert_results_are_of_the_folder(place, folder, steps):
    best = json.loads((folder / "metrics.json").read_text())["best"]
    percents = {row["metric"]: float(row["percent"]) for row in place.rows()}
    assert percents == {
        name: pytest.approx(100 * best[key], abs=1e-4)
        for name, key in (("NMI", "nmi"), ("F1", "f1"), ("R@1", "recall@1"), ("R@2", "recall@2"))
    }
    row = place.rows()[0]
    assert (row["steps"], row["seed"], row["dataset"]) == (str(steps), "3", "small")
    with open(folder / "log.csv", newline="") as file:
        rates = [float(line["images_per_second"]) for line in csv.DictReader(file) if line["loss"]]
    # Four of the eight classes train, which makes batches of eight.
    assert float(row["step_milliseconds"]) == pytest.approx(8000 / np.median(rates), abs=0.01)
    # All of them are in the batch: M = ceil(6 * 4 / 4).
    assert row["steps_per_projection"] == "6"


@pytest.mark.slow
def test_a_real_training_gives_its_figures(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    place, folder = real_place(tmp_path, epochs=2)
    assert run_grid.main(place.arguments) == 0
    assert [attempt["exit_code"] for attempt in place.record(folder.name)["attempts"]] == [0]
    assert_results_are_of_the_folder(place, folder, steps=4)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "left"), [(signal.SIGINT, 130), (signal.SIGKILL, None)])
def test_a_real_training_goes_on_after_its_grid_was_stopped(tmp_path, monkeypatch, number, left):
    monkeypatch.chdir(ROOT)
    place, folder = real_place(tmp_path, epochs=40)
    process = place.start(run_grid.TRAIN)
    wait_for((folder / "checkpoints" / "checkpoint").exists, process)
    process.send_signal(number)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == (130 if left else -signal.SIGKILL), output
    assert not (folder / "metrics.json").exists()
    assert run_grid.main(place.arguments) == 0
    attempts = place.record(folder.name)["attempts"]
    assert [attempt["exit_code"] for attempt in attempts] == [left, 0]
    steps = re.findall(r"beginning at step (\d+)", (place.runs / f"{folder.name}.log").read_text())
    assert steps[0] == "0"
    assert int(steps[1]) > 0
    assert_results_are_of_the_folder(place, folder, steps=80)
