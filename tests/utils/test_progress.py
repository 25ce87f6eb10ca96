import io
import sys

import numpy as np
import pytest

from profs_tf.metrics import neighbors
from profs_tf.metrics.exact import ranking
from profs_tf.metrics.k_means import lloyd
from profs_tf.metrics.neighbors import nearest
from profs_tf.metrics.retrieval import evaluate_retrieval
from profs_tf.utils import progress
from profs_tf.utils.progress import Progress, is_interactive


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """Seconds that the test sets."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "is_interactive", lambda stream: stream.isatty())
    return now


def work(clock, stream, seconds_each, monkeypatch):
    monkeypatch.setattr("sys.stderr", stream)
    bar = Progress("search", 10, shown=True)
    for _ in range(10):
        clock[0] += seconds_each
        bar.advance("x")
    bar.finish()
    return stream.getvalue()


def test_a_terminal_gets_one_line_that_is_redrawn(clock, monkeypatch):
    text = work(clock, Terminal(), 1.0, monkeypatch)
    assert text.count("\r") == 10
    assert text.count("\n") == 1
    assert text.endswith("search 100% 00:10 x".ljust(70) + "\n")


def test_a_file_gets_a_plain_line_a_minute(clock, monkeypatch):
    text = work(clock, io.StringIO(), 30.0, monkeypatch)
    assert text.splitlines() == [
        f"search {share:3}% {minute:02}:00 x"
        for share, minute in zip((" 20", " 40", " 60", " 80", "100"), range(1, 6))
    ]
    assert work(clock, io.StringIO(), 1.0, monkeypatch) == ""


# More than a block of rows, so that there are several steps of progress.
EMBEDDINGS = np.random.default_rng(0).normal(size=[2100, 4]).astype(np.float32)
LABELS = np.arange(2100) // 3


def interrupted():
    with Progress("search", 10, shown=True) as bar:
        bar.advance("x")
        raise MemoryError


@pytest.mark.parametrize(
    ("owner", "name", "work"),
    [
        (None, None, interrupted),
        (ranking.NegativeCounter, "add", lambda: evaluate_retrieval(EMBEDDINGS, LABELS, progress=True)),
        (neighbors.TopK, "merge", lambda: nearest(EMBEDDINGS, EMBEDDINGS, 3, progress=True)),
        (lloyd._Lloyd, "_means", lambda: lloyd.kmeans(EMBEDDINGS, 8, start="random", progress=True)),
    ],
)
def test_an_error_begins_on_a_line_of_its_own(owner, name, work, clock, monkeypatch):
    def fail_the_second_time(*arguments):
        calls.append(name)
        if len(calls) == 2:
            raise MemoryError
        return method(*arguments)

    if owner is not None:
        calls, method = [], getattr(owner, name)
        monkeypatch.setattr(owner, name, fail_the_second_time)
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    clock[0] = 100.0
    with pytest.raises(MemoryError):
        work()
    assert terminal.getvalue().startswith("\r")
    assert terminal.getvalue().endswith("\n")


def test_notebooks_and_consoles_of_editors_redraw_lines(monkeypatch):
    monkeypatch.delenv("PYCHARM_HOSTED", raising=False)
    assert not is_interactive(io.StringIO())
    assert is_interactive(Terminal())
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    assert is_interactive(io.StringIO())
