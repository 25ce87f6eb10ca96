"""Grids that a signal stops, and the grid that goes on with their runs."""

import csv
import fcntl
import json
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import run_grid
from grid_runs import child, locks, worker

from tests.tools.grid_place import FAKE, GRID, NAMES, ROOT, Place, wait_for


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


def test_ctrl_c_while_a_run_starts_stops_it_too(place, monkeypatch):
    class StartingAtTheSignal(child.Child):
        """Has begun, but the grid does not know it yet when the signal comes."""

        def __init__(self, *arguments):
            super().__init__(*arguments)
            wait_for(lambda: list(place.runs.glob("*/checkpoints/checkpoint")))
            signal.raise_signal(signal.SIGINT)

    hang = place.control / "hang_one"
    hang.touch()
    # Otherwise a grid that waits for the whole training would do so forever.
    whole_training = threading.Timer(20, hang.unlink)
    whole_training.start()
    monkeypatch.setattr(worker, "Child", StartingAtTheSignal)
    try:
        assert place.run() == 130
    finally:
        whole_training.cancel()
    assert [attempt["exit_code"] for attempt in place.record(NAMES[0])["attempts"]] == [130]


def test_ctrl_c_at_the_end_of_a_run_is_no_error(place, monkeypatch):
    def wait_then_signal(pid, options):
        ended = os.wait4(pid, options)
        if ended[0]:
            signal.raise_signal(signal.SIGINT)
        return ended

    # Not in `os` itself, which other modules use.
    monkeypatch.setattr(child, "os", SimpleNamespace(**{**vars(os), "wait4": wait_then_signal}))
    assert place.run("--jobs=1") == 130
    assert [attempt["exit_code"] for attempt in place.record(NAMES[0])["attempts"]] == [0]
    assert [name for name, _ in place.calls()] == NAMES[:1]


# Stands in for a run that the second Ctrl-C stops; tells how many it got.
STUBBORN = """
import os, pathlib, signal, sys, time
control = pathlib.Path(os.environ["FAKE_CONTROL"])
def receive(number, frame):
    receive.count += 1
    (control / f"signal_{receive.count}").touch()
    if receive.count == 2:
        sys.exit(7)
receive.count = 0
signal.signal(signal.SIGINT, receive)
(control / "ready").touch()
while True:
    time.sleep(0.01)
"""


def test_a_run_gets_each_ctrl_c_once(place):
    process = place.start((sys.executable, "-c", STUBBORN), "--jobs=1")
    wait_for((place.control / "ready").exists, process)
    process.send_signal(signal.SIGINT)
    wait_for((place.control / "signal_1").exists, process)
    # Time for the first one to be sent again, which must not be.
    time.sleep(0.7)
    assert not (place.control / "signal_2").exists()
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert place.record(NAMES[0])["attempts"][-1]["exit_code"] == 7


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
