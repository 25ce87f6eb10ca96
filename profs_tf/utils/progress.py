"""A progress line on standard error."""

from __future__ import annotations

import sys
import time

# Seconds between two updates of the line.
_INTERVAL = 0.5


class Progress:
    """Shows how much of a known amount of work is done: `Recall@K 45% 00:12`."""

    def __init__(self, name: str, total: int, shown: bool) -> None:
        """Starts the clock; writes nothing unless `shown`."""
        self._name, self._total, self._shown = name, total, shown
        self._done, self._start, self._last = 0, time.monotonic(), 0.0
        self._open = False

    def advance(self, note: str = "") -> None:
        """One more unit of the work is done."""
        self._done += 1
        now = time.monotonic()
        if not self._shown or (now - self._last < _INTERVAL and self._done < self._total):
            return
        self._last = now
        minutes, seconds = divmod(int(now - self._start), 60)
        line = f"{self._name} {self._done / self._total:4.0%} {minutes:02d}:{seconds:02d} {note}"
        sys.stderr.write(f"\r{line:<70}")
        sys.stderr.flush()
        self._open = True

    def finish(self) -> None:
        """Ends the line, also where the work was done early."""
        if self._open:
            sys.stderr.write("\n")
            self._open = False
