"""Starts Python from a fork server that has imported TensorFlow, with the interface of subprocess.

It saves the seconds that importing TensorFlow takes, and one more that the interpreter takes to end. A
process has its own arguments, folder, environment and outputs. Pytest has one server for all its workers.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

SERVER = Path(__file__).with_name("fork_server.py")
# In the environment of pytest's workers: the server's socket.
SOCKET = "PROFS_TF_TESTS_FORK_SERVER"


class ForkServer:
    """The server, which imports nothing before the first request; ended with the tests."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory()
        path = os.path.join(self._folder.name, "socket")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            words = [sys.executable, SERVER, str(listener.fileno())]
            self._process = subprocess.Popen(words, stdin=subprocess.PIPE, pass_fds=[listener.fileno()])
        os.environ[SOCKET] = path

    def stop(self):
        os.environ.pop(SOCKET)
        self._process.stdin.close()
        self._process.wait()
        self._folder.cleanup()


def run_forked(*words, timeout=300, **options):
    """Runs Python to its end; returns its outputs and exit code as `subprocess.run` does."""
    process = ForkedProcess(*words, **options)
    try:
        output, errors = process.communicate(timeout)
    finally:
        process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


class ForkedProcess:
    """A running Python, with those methods of `subprocess.Popen` that tests need.

    Args:
        words: what the user types after `python`: -m and a module, -c and code, or a script; then arguments.
        merged: standard error goes to standard output.
        env: whole environment of the process (default: this process's).
        cwd: its folder (default: this process's).
    """

    def __init__(self, *words, merged=False, env=None, cwd=None):
        self.args = [str(word) for word in words]
        self.returncode = None
        self._folder = tempfile.TemporaryDirectory()
        names = ["output", "output" if merged else "errors"]
        self._outputs = [Path(self._folder.name, name) for name in names]
        for file in self._outputs:
            file.touch()
        request = {
            "words": self.args,
            "folder": str(cwd or Path.cwd()),
            "environment": dict(os.environ if env is None else env),
            "path": sys.path,
            "outputs": [str(file) for file in self._outputs],
        }
        self._server = socket.socket(socket.AF_UNIX)
        self._server.connect(os.environ[SOCKET])
        self._server.sendall(json.dumps(request).encode() + b"\n")
        self._answers = self._server.makefile()
        self.pid = int(self._answers.readline())

    def poll(self):
        """Returns the exit code, None while it runs; negative: the signal that ended it."""
        return self._read_exit_code(0)

    def wait(self, timeout=None):
        """Waits for the end and returns the exit code."""
        if self._read_exit_code(timeout) is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def communicate(self, timeout=None):
        """Waits for the end and returns what was printed: standard output, standard error."""
        self.wait(timeout)
        output, errors = self._outputs
        texts = [output.read_text(), None if errors == output else errors.read_text()]
        self._folder.cleanup()
        return texts

    def send_signal(self, number):
        """Sends a signal unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        """Sends SIGKILL unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def _read_exit_code(self, timeout):
        if self.returncode is None and select.select([self._server], [], [], timeout)[0]:
            self.returncode = int(self._answers.readline())
            self._answers.close()
            self._server.close()
        return self.returncode
