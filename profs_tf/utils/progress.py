"""Progress on standard error: a line that is redrawn on a terminal, and a line a minute in a file."""

from __future__ import annotations

import os
import sys
import time
from typing import TextIO

# Seconds between two updates of the line, and between two lines of a file.
_REDRAW_SECONDS = 0.5
_LINE_SECONDS = 60.0


def is_interactive(stream: TextIO) -> bool:
    """Returns whether lines can be redrawn: on a terminal, in a notebook, or in an IDE's console."""
    return stream.isatty() or "ipykernel" in sys.modules or "PYCHARM_HOSTED" in os.environ


class Progress:
    """Shows how much of a known amount of work is done: `search 45% 00:12`.

    A context manager: whatever ends the work, an error's message begins on a line of its own.
    """

    def __init__(self, name: str, total: int, shown: bool) -> None:
        """Starts the clock; writes nothing unless `shown`."""
        self._name, self._total, self._shown = name, total, shown
        self._redraws = is_interactive(sys.stderr)
        self._interval = _REDRAW_SECONDS if self._redraws else _LINE_SECONDS
        self._done, self._start = 0, time.monotonic()
        # A file gets its first line after an interval: short work leaves none.
        self._last = 0.0 if self._redraws else self._start
        self._open = False

    def __enter__(self) -> Progress:
        """Returns itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Ends the line, also if the work failed."""
        self.finish()

    def advance(self, note: str = "", units: int = 1) -> None:
        """Counts units of the work as done."""
        self._done += units
        now = time.monotonic()
        ends = self._done >= self._total and self._redraws
        if not self._shown or (now - self._last < self._interval and not ends):
            return
        self._last = now
        minutes, seconds = divmod(int(now - self._start), 60)
        share = self._done / max(self._total, 1)
        line = f"{self._name} {share:4.0%} {minutes:02d}:{seconds:02d} {note}"
        sys.stderr.write(f"\r{line:<70}" if self._redraws else f"{line.rstrip()}\n")
        sys.stderr.flush()
        self._open = self._redraws

    def finish(self) -> None:
        """Ends the line of work that may be incomplete."""
        if self._open:
            sys.stderr.write("\n")
            self._open = False
