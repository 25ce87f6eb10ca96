"""A train command in a separate process, with its CPU time."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

_PR_SET_PDEATHSIG = 1


class Child:
    """A running command whose output is appended to a file.

    The terminal's Ctrl-C does not reach it; the grid passes it on. If the grid itself is killed, Linux sends
    SIGTERM, and the run saves and stops.

    Attributes:
        command: Program and arguments.
        exit_code: None while it runs; minus the signal's number if a signal killed it.
        seconds: Its wall time.
        cpu_seconds: Processor time of all its threads, user and system; None while it runs.
        interrupts: How often it was interrupted.
    """

    def __init__(self, command: list, log_path: Path, root: Path, held_open: tuple):
        """Starts the command.

        Args:
            command: Program and arguments.
            log_path: File of the output.
            root: Its working directory.
            held_open: File descriptors of locks, which stay open until it ends.
        """
        self.command = command
        self.exit_code = None
        self.cpu_seconds = None
        self.seconds = 0.0
        self.interrupts = 0
        self._began = time.monotonic()
        with open(log_path, "ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=root,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ},
                pass_fds=held_open,
                start_new_session=True,
                preexec_fn=_end_with_parent if sys.platform == "linux" else None,
            )

    def has_ended(self) -> bool:
        """Returns whether it has ended; then the attributes are set."""
        if self.exit_code is None:
            # `Popen.poll` does not report CPU time.
            pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
            self.seconds = time.monotonic() - self._began
            if pid:
                self.exit_code = self._process.returncode = os.waitstatus_to_exitcode(status)
                self.cpu_seconds = usage.ru_utime + usage.ru_stime
        return self.exit_code is not None

    def interrupt(self) -> None:
        """Sends SIGINT: the first saves and stops the run, the second stops it at once."""
        self.interrupts += 1
        if not self.has_ended():
            os.kill(self._process.pid, signal.SIGINT)


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
