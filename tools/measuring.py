"""What the benchmarks share: measurements in turn, clocks, memory, parts in separate processes, a report."""

from __future__ import annotations

import functools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

_Figure = TypeVar("_Figure")


def in_turn(
    measurements: Mapping[str, Callable[[], _Figure]], repeats: int, warm_up: int = 1
) -> dict[str, list[_Figure]]:
    """Measures in turn, so that other load on the machine affects all alike.

    Args:
        measurements: Functions that measure once.
        repeats: Rounds that count.
        warm_up: Rounds before them.

    Returns:
        The figures of each function.
    """
    found: dict[str, list[_Figure]] = {name: [] for name in measurements}
    for turn in range(warm_up + repeats):
        for name, measure in measurements.items():
            figure = measure()
            if turn >= warm_up:
                found[name].append(figure)
    return found


def seconds(call: Callable[[], Any], times: int = 1) -> float:
    """Returns the mean wall time of a call."""
    begin = time.perf_counter()
    for _ in range(times):
        result = call()
    if hasattr(result, "numpy"):
        # Reading a tensor back waits for the device.
        result.numpy()
    return (time.perf_counter() - begin) / times


def wall_and_cpu_seconds(call: Callable[[], Any]) -> np.ndarray:
    """Returns the wall time of a call and its CPU time in all threads."""
    begin = np.array([time.perf_counter(), time.process_time()])
    call()
    return np.array([time.perf_counter(), time.process_time()]) - begin


def median_times(
    calls: Mapping[str, Callable[[], Any]],
    repeats: int,
    clock: Callable[[Callable[[], Any]], float] = seconds,
    warm_up: int = 1,
) -> dict[str, float]:
    """Returns the median of what a clock says of each call, measured `in_turn`."""
    measurements = {name: functools.partial(clock, call) for name, call in calls.items()}
    return {name: statistics.median(found) for name, found in in_turn(measurements, repeats, warm_up).items()}


def status_kilobytes(field: str) -> int:
    """Returns a figure of Linux's account of this process, such as VmHWM: its peak memory."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def run_part(tool: str, part: str, *options: str) -> dict[str, Any]:
    """Runs a part of a tool in a separate process; returns the figures that it prints last, as JSON."""
    command = [sys.executable, tool, f"--part={part}", *options]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def print_line(name: str, figures: str) -> None:
    """Prints one line of a report."""
    print(f"  {name:<40}{figures}", flush=True)
