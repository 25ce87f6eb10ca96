"""Imports what tests' processes import, and forks to run one: python fork_server.py SOCKET.

What it forks is a process with its own arguments, folder, environment and outputs, which ends as the
interpreter ends; only the seconds that TensorFlow takes to be imported are saved. SOCKET is the number of an
open Unix socket. A message is the JSON of a request and three files: standard output, standard error, and a
pipe for the process's number and, once it has ended, how.
"""

import importlib
import json
import os
import runpy
import signal
import socket
import sys
from pathlib import Path

import profs_tf

COMMANDS = ("check_data", "evaluate", "export", "gallery", "retrieve", "train")
# Imported by the commands only when they need them.
LATE_IMPORTS = ("matplotlib.pyplot", "sklearn.cluster", "sklearn.decomposition")
LARGEST_MESSAGE = 1 << 20


def import_all():
    for name in LATE_IMPORTS:
        importlib.import_module(name)
    for name in COMMANDS:
        importlib.import_module(f"profs_tf.{name}")
    for name in COMMANDS:
        # As when a command begins: it is not itself imported yet.
        del sys.modules[f"profs_tf.{name}"]
        vars(profs_tf).pop(name, None)


def serve(requests):
    """Forks for every request; returns its words in the process that is to run them, else nothing."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, files, _, _ = socket.recv_fds(requests, LARGEST_MESSAGE, 3)
        if not message:
            return None
        if os.fork() == 0:
            requests.close()
            return fork_and_watch(json.loads(message), *files)
        for file in files:
            os.close(file)


def fork_and_watch(request, output, errors, status):
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        os.close(status)
        return become(request, output, errors)
    os.close(output)
    os.close(errors)
    os.write(status, f"{child}\n".encode())
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.write(status, f"{code}\n".encode())
    os._exit(0)


def become(request, output, errors):
    os.dup2(output, 1)
    os.dup2(errors, 2)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    return request["words"]


def run(words):
    """Does what `python WORDS...` does with a module (-m), code (-c) or a script."""
    if words[0] == "-m":
        sys.argv[1:] = words[2:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.argv[:] = ["-c", *words[2:]]
        exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv[:] = words
        sys.path[0] = str(Path(words[0]).parent)
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    import_all()
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        words_to_run = serve(connection)
    if words_to_run:
        run(words_to_run)
