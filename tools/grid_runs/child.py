"""One train command as a process of its own, with its processor time."""

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
    """A running command whose output goes to the end of a file.

    It is out of reach of the terminal's Ctrl-C, which the grid passes on instead; and where the grid itself
    is killed, Linux asks it to save and stop.

    Attributes:
        exit_code: None while it runs; negative for the number of the signal that killed it.
        seconds: how long it ran.
        cpu_seconds: processor time of all its threads, user and system; None while it runs.
    """

    def __init__(self, command: list, log_path: Path, root: Path, held_open: tuple):
        """Starts the command.

        Args:
            command: program and arguments.
            log_path: where the output goes.
            root: the folder it runs in.
            held_open: file descriptors that stay open until it ends: locks.
        """
        self.exit_code = None
        self.cpu_seconds = None
        self.seconds = 0.0
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
        """Returns whether it has ended, and then knows how."""
        if self.exit_code is None:
            # Not `Popen.poll`, which does not tell the processor time.
            pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
            self.seconds = time.monotonic() - self._began
            if pid:
                self.exit_code = self._process.returncode = os.waitstatus_to_exitcode(status)
                self.cpu_seconds = usage.ru_utime + usage.ru_stime
        return self.exit_code is not None

    def interrupt(self) -> None:
        """Asks it to save and stop, or when asked before to stop at once, as Ctrl-C does."""
        if not self.has_ended():
            os.kill(self._process.pid, signal.SIGINT)


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
