"""Trains the runs of a grid, several at a time, and records their results."""

from __future__ import annotations

import signal
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

from grid_runs.child import Child
from grid_runs.machine import describe_commit, describe_machine
from grid_runs.progress import Progress
from grid_runs.results import add_results, rows_of
from grid_runs.run_files import FINISHED, RESTARTED, RESUMED, RunFiles

TRAIN = (sys.executable, "-m", "profs_tf.train")
_POLL_SECONDS = 0.2
_DISPLAY_SECONDS = 2.0


class Worker:
    """Trains all runs that have not finished.

    Attributes:
        failed: The names of the runs that failed.
    """

    def __init__(
        self,
        all_files: list,
        results: Path,
        root: Path,
        jobs: int,
        command: tuple,
        locks: tuple,
        keep_checkpoints: bool = False,
    ):
        """Reads the state of all runs.

        Args:
            all_files: `RunFiles` of every run.
            results: The results file.
            root: The repository.
            jobs: Number of runs trained at the same time.
            command: The train command, to which the run's arguments are appended.
            locks: File descriptors that the children keep open.
            keep_checkpoints: Whether those of finished runs stay.
        """
        self._keep_checkpoints = keep_checkpoints
        self._all, self._results, self._root = all_files, results, root
        self._jobs, self._command, self._locks = jobs, command, locks
        self._machine = describe_machine()
        self._running = {}
        self.failed = []
        self._num_signals = 0
        # Read once: only current runs change them, at the end of an epoch.
        self._epochs = {files: files.config().epochs for files in all_files}
        self._done = {files: self._epochs_done(files) for files in all_files}

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C or SIGTERM stopped the grid."""
        return self._num_signals > 0

    def work(self) -> None:
        """Trains until all runs have ended or a signal stops the grid."""
        finished = [files for files in self._all if files.state() == FINISHED]
        for files in finished:
            # A kill may have come between the end of a run and writing its results.
            add_results(self._results, rows_of(files))
            self._tidy(files)
        waiting = [files for files in self._all if files not in finished]
        self._progress = Progress(
            sum(self._epochs.values()), sum(self._done.values()), len(self._all), len(finished)
        )
        self._progress.line(f"{len(self._all)} runs, {len(finished)} of them finished.")
        previous = {
            number: signal.signal(number, self._count_signal) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            self._loop(waiting)
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
            self._progress.close()

    def _loop(self, waiting: list) -> None:
        shown = 0.0
        while self._running or (waiting and not self.interrupted):
            while waiting and len(self._running) < self._jobs and not self.interrupted:
                self._start(waiting.pop(0))
            for files, child in list(self._running.items()):
                if child.has_ended():
                    del self._running[files]
                    self._conclude(files, child)
            self._pass_on_signals()
            if time.monotonic() - shown > _DISPLAY_SECONDS:
                shown = time.monotonic()
                self._done.update({files: self._epochs_done(files) for files in self._running})
                self._show()
            time.sleep(_POLL_SECONDS)

    def _show(self) -> None:
        self._progress.update(sum(self._done.values()), [files.run.name for files in self._running])

    def _epochs_done(self, files: RunFiles) -> int:
        # A run that stopped early has no epochs left.
        return self._epochs[files] if files.folder.metrics.exists() else files.epochs_done()

    def _start(self, files: RunFiles) -> None:
        state = files.state()
        if state == RESTARTED:
            files.clear()
        command = [*self._command, *files.run.arguments(files.folder.path), "--progress=line"]
        if state == RESUMED:
            command.append("--resume")
        attempt = {
            "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "commit": describe_commit(self._root),
            **self._machine,
            "seconds": None,
            "cpu_seconds": None,
            "exit_code": None,
        }
        # A restarted run does not depend on earlier attempts.
        attempts = files.attempts() if state == RESUMED else []
        files.write_attempts([*attempts, attempt], command)
        self._progress.line(f"{files.run.name}: {state}")
        self._running[files] = Child(command, files.log_path, self._root, self._locks)

    def _conclude(self, files: RunFiles, child: Child) -> None:
        attempts = files.attempts()
        attempts[-1].update(
            seconds=round(child.seconds, 2),
            cpu_seconds=round(child.cpu_seconds, 2),
            exit_code=child.exit_code,
        )
        done = child.exit_code == 0 and files.folder.metrics.exists()
        if not done:
            attempts[-1]["log_tail"] = files.log_tail()
        files.write_attempts(attempts, child.command)
        self._done[files] = self._epochs_done(files)
        self._show()
        took = f"{child.seconds:.0f} s, {child.cpu_seconds:.0f} s of CPU time"
        if done:
            rows = rows_of(files)
            add_results(self._results, rows)
            self._tidy(files)
            figures = ", ".join(f"{row['metric']} {float(row['percent']):.2f}" for row in rows)
            self._progress.run_ended(files.run.name, f"{figures}; {took}")
        elif self.interrupted:
            self._progress.line(f"{files.run.name}: stopped after {took}")
        else:
            self.failed.append(files.run.name)
            self._progress.run_ended(
                files.run.name, f"FAILED with exit code {child.exit_code} after {took}", True
            )
            for line in attempts[-1]["log_tail"]:
                self._progress.line(f"    {line}")
            self._progress.line(f"    Full log: {files.log_path}")

    def _tidy(self, files: RunFiles) -> None:
        if not self._keep_checkpoints:
            files.remove_checkpoints()

    def _count_signal(self, number: int, frame: object) -> None:
        # No more than this: a child may be about to start, or to be asked whether it has ended.
        self._num_signals += 1

    def _pass_on_signals(self) -> None:
        """Sends each run the signals that it has not got; one at a time, as a run would merge two."""
        for child in self._running.values():
            if child.interrupts < self._num_signals:
                child.interrupt()
