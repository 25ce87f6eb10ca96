"""Starts Python by forking a process that has imported TensorFlow, with the interface of subprocess."""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

SERVER = Path(__file__).with_name("fork_server.py")


@cache
def server():
    """Returns the socket of this process's server, which its first use starts."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, str(SERVER), str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
        )

    def stop():
        ours.close()
        process.wait()

    atexit.register(stop)
    return ours


def run_forked(*words, timeout=300, **options):
    """Runs Python to its end; returns its outputs and exit code as `subprocess.run` does."""
    process = ForkedProcess(*words, **options)
    try:
        output, errors = process.communicate(timeout)
    finally:
        process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


class ForkedProcess:
    """A running Python, as `subprocess.Popen` has it for those of its methods that are here.

    Args:
        words: what the user types after `python`: -m and a module, -c and code, or a script; then arguments.
        merged: standard error goes to standard output.
        env: whole environment of the process (default: this process's).
        cwd: its folder (default: this process's).
    """

    def __init__(self, *words, merged=False, env=None, cwd=None):
        self.args = [str(word) for word in words]
        self.returncode = None
        self._output = self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - open while the process runs
        if not merged:
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        request = {
            "words": self.args,
            "cwd": str(cwd or Path.cwd()),
            "environment": dict(os.environ if env is None else env),
        }
        reading, writing = os.pipe()
        files = [self._output.fileno(), self._errors.fileno(), writing]
        socket.send_fds(server(), [json.dumps(request).encode()], files)
        os.close(writing)
        self._status = os.fdopen(reading, "rb", buffering=0)
        self.pid = int(self._status.readline())

    def poll(self):
        """Returns the exit code, None while it runs."""
        return self._ended_within(0)

    def wait(self, timeout=None):
        """Waits for the end and returns the exit code; negative: the signal that ended it."""
        if self._ended_within(timeout) is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def communicate(self, timeout=None):
        """Waits for the end and returns what was printed: standard output, standard error."""
        self.wait(timeout)
        texts = [self._text(self._output), None if self._errors is self._output else self._text(self._errors)]
        self._output.close()
        self._errors.close()
        return texts

    def send_signal(self, number):
        """Sends a signal unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        """Sends SIGKILL unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def _ended_within(self, seconds):
        if self.returncode is None and select.select([self._status], [], [], seconds)[0]:
            self.returncode = int(self._status.readline())
            self._status.close()
        return self.returncode

    @staticmethod
    def _text(file):
        file.seek(0)
        return file.read().decode()
