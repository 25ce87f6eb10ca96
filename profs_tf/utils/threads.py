"""Threads for work on blocks. NumPy and TensorFlow release the interpreter while they compute."""

from __future__ import annotations

import collections
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# Each thread holds the memory of a block.
_MAX_THREADS = 8


def num_threads() -> int:
    """Returns the number of threads, at least 2: while one scans a block, another multiplies."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(2, min(_MAX_THREADS, cores))


def in_threads(work: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """Yields `work(item)` for each item, in order, holding few finished results in memory."""
    waiting: collections.deque[Future[_Result]] = collections.deque()
    with ThreadPoolExecutor(num_threads()) as pool:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > 2 * num_threads():
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
