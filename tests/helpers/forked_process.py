"""Starts Python from a fork server that has imported TensorFlow, with the interface of subprocess.

The server is the standard library's. It saves the seconds that importing TensorFlow takes, and one more that
the interpreter takes to end. The process has its own arguments, folder, environment and outputs.
"""

import atexit
import gc
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

COMMANDS = tuple(
    f"profs_tf.{name}"
    for name in ("check_data", "embed", "evaluate", "export", "gallery", "retrieve", "train")
)
# Imported by the commands only when they need them; pytest is what multiprocessing takes for the main module.
LATE_IMPORTS = ("matplotlib.pyplot", "sklearn.cluster", "sklearn.decomposition", "pytest")
FORKING = multiprocessing.get_context("forkserver")
FORKING.set_forkserver_preload([*LATE_IMPORTS, *COMMANDS])


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
        self._folder = tempfile.TemporaryDirectory()
        names = ["output", "output" if merged else "errors"]
        self._outputs = [Path(self._folder.name, name) for name in names]
        for file in self._outputs:
            file.touch()
        environment = dict(os.environ if env is None else env)
        self._process = FORKING.Process(
            target=run, args=(self.args, str(cwd or Path.cwd()), environment, *map(str, self._outputs))
        )
        self._process.start()
        self.pid = self._process.pid

    @property
    def returncode(self):
        """The exit code, None while it runs; negative: the signal that ended it."""
        return self._process.exitcode

    def poll(self):
        """Returns the exit code, None while it runs."""
        return self.returncode

    def wait(self, timeout=None):
        """Waits for the end and returns the exit code."""
        self._process.join(timeout)
        if self.returncode is None:
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


def run(words, folder, environment, output, errors):
    """Does, in the new process, what `python WORDS...` does with a module (-m), code (-c) or a script."""
    for number, file in ((1, output), (2, errors)):
        descriptor = os.open(file, os.O_WRONLY | os.O_APPEND)
        os.dup2(descriptor, number)
        os.close(descriptor)
    # What was imported stays: looking through it for garbage takes a tenth of the time.
    gc.freeze()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    try:
        run_words(words)
    finally:
        # Multiprocessing leaves this out.
        atexit._run_exitfuncs()


def run_words(words):
    if words[0] == "-m":
        # As when a command begins: it is not itself imported yet.
        package, _, name = words[1].rpartition(".")
        sys.modules.pop(words[1], None)
        vars(sys.modules[package]).pop(name, None)
        sys.argv[1:] = words[2:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.argv[:] = ["-c", *words[2:]]
        exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv[:] = words
        sys.path.insert(0, str(Path(words[0]).parent))
        runpy.run_path(words[0], run_name="__main__")
