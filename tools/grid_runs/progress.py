"""Progress of a grid: a bar with the remaining time on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time

from tqdm import tqdm


class Progress:
    """Counts epochs of training over all runs of a grid.

    The remaining time is estimated from the epochs trained since the grid started, by all jobs together.
    """

    def __init__(self, total_epochs: int, done_epochs: int, num_runs: int, finished_runs: int):
        """Starts the display.

        Args:
            total_epochs: Epochs of all runs.
            done_epochs: Number of them that earlier grids trained.
            num_runs: Number of runs.
            finished_runs: Number of them that have finished.
        """
        self._total, self._before, self._done = total_epochs, done_epochs, done_epochs
        self._num_runs, self._ended, self._failed = num_runs, finished_runs, 0
        self._running = []
        self._began = time.monotonic()
        self._bar = tqdm(
            total=total_epochs,
            initial=done_epochs,
            unit="epoch",
            smoothing=0,
            disable=not sys.stderr.isatty(),
            dynamic_ncols=True,
        )

    def update(self, done_epochs: int, running: list) -> None:
        """Shows the finished epochs of all runs, and the names of the current runs."""
        # The count falls when a run restarts.
        self._done = done_epochs
        self._running = running
        self._refresh()

    def _refresh(self) -> None:
        self._bar.n = self._done
        failed = f", {self._failed} failed" if self._failed else ""
        self._bar.set_postfix_str(f"{self._ended}/{self._num_runs} runs{failed}: {', '.join(self._running)}")

    def run_ended(self, name: str, text: str, failed: bool = False) -> None:
        """Prints a line on how a run ended."""
        self._ended += 1
        self._failed += failed
        self._refresh()
        self.line(f"[{self._ended}/{self._num_runs}] {name}: {text}; {self.time_left()}")

    def time_left(self) -> str:
        """Returns the remaining time as text."""
        trained = self._done - self._before
        if self._done >= self._total:
            return "nothing left"
        if trained <= 0:
            return "time left unknown"
        seconds = (time.monotonic() - self._began) * (self._total - self._done) / trained
        return f"about {tqdm.format_interval(seconds)} left"

    @staticmethod
    def line(text: str) -> None:
        """Prints a line, above the bar if there is one."""
        tqdm.write(text)
        sys.stdout.flush()

    def close(self) -> None:
        """Ends the display."""
        self._bar.close()
