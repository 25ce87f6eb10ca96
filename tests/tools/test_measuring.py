"""What the benchmarks share."""

import importlib
import json
import time
from pathlib import Path

import pytest


@pytest.fixture
def measuring(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "tools"))
    return importlib.import_module("measuring")


def test_what_is_measured_takes_turns_and_warming_up_does_not_count(measuring):
    order = []

    def measurement(name):
        return lambda: order.append(name) or len(order)

    found = measuring.in_turn({name: measurement(name) for name in "ab"}, repeats=3, warm_up=2)
    assert "".join(order) == "ababababab"
    assert found == {"a": [5, 7, 9], "b": [6, 8, 10]}


def test_medians_of_a_clock(measuring):
    times = iter([90, 1, 7, 2])
    assert measuring.median_times({"a": None}, 3, clock=lambda call: next(times)) == {"a": 2}


def test_clocks(measuring):
    assert 0.1 <= measuring.seconds(lambda: time.sleep(0.1), times=2) < 0.2
    wall, cpu = measuring.wall_and_cpu_seconds(lambda: time.sleep(0.2))
    assert wall >= 0.2 > cpu


def test_memory_is_at_its_peak_or_below(measuring):
    assert 2**10 < measuring.status_kilobytes("VmRSS") <= measuring.status_kilobytes("VmHWM")


def test_a_part_runs_in_a_process_of_its_own(measuring, tmp_path):
    tool = tmp_path / "tool.py"
    tool.write_text("import json, sys\nprint('working')\nprint(json.dumps({'words': sys.argv[1:]}))\n")
    assert measuring.run_part(str(tool), "ask", "--n=1") == json.loads('{"words": ["--part=ask", "--n=1"]}')
