"""Imports TensorFlow and the commands once, and forks for each request; `forked_process` is the client.

  python fork_server.py DESCRIPTOR

The descriptor is that of a listening socket, which takes connections before this process is ready for them.
A request is a line of JSON on a connection. The answers are the new process's number, at once, and its exit
code, when it has ended. The server ends when its standard input is closed.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import threading
import traceback
from pathlib import Path

COMMANDS = tuple(
    f"profs_tf.{name}"
    for name in ("check_data", "embed", "evaluate", "export", "gallery", "retrieve", "train")
)
# Imported by the commands only when they need them.
LATE_IMPORTS = ("matplotlib.pyplot", "sklearn.cluster", "sklearn.decomposition")


def serve(descriptor):
    wakes, woken = socket.socketpair()
    for end in (wakes, woken):
        end.setblocking(False)
    # Ctrl-C is for the processes of the tests.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wakes.fileno())
    listener = socket.socket(fileno=descriptor)
    waiting = selectors.DefaultSelector()
    for source in (sys.stdin, woken, listener):
        waiting.register(source, selectors.EVENT_READ)
    children = {}
    while True:
        for key, _ in waiting.select():
            if key.fileobj is sys.stdin:
                return
            if key.fileobj is listener:
                connection, _ = listener.accept()
                with connection.makefile() as lines:
                    request = json.loads(lines.readline())
                pid = fork(request)
                children[pid] = connection
                tell(connection, pid)
            else:
                woken.recv(1000)
                for pid, code in ended(children):
                    with children.pop(pid) as connection:
                        tell(connection, code)


def tell(connection, number):
    # The test may be over.
    with contextlib.suppress(OSError):
        connection.sendall(f"{number}\n".encode())


def ended(children):
    """Yields the numbers and exit codes of the processes that have ended."""
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        yield pid, os.waitstatus_to_exitcode(status)


def fork(request):
    """Returns the number of the new process, which does not return."""
    if "tensorflow" not in sys.modules:
        sys.path[:] = request["path"]
        for name in (*LATE_IMPORTS, *COMMANDS):
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        # What was imported stays: looking through it for garbage would take a tenth of the time.
        gc.freeze()
    pid = os.fork()
    if not pid:
        os._exit(run(**request))
    return pid


def run(words, folder, environment, path, outputs):
    """Does in the new process what `python WORDS...` does with a module (-m), code (-c) or a script."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, file in enumerate((os.devnull, *outputs)):
        descriptor = os.open(file, os.O_WRONLY | os.O_APPEND if number else os.O_RDONLY)
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:] = path
    code = 1
    try:
        run_words(words)
        code = 0
    except SystemExit as stopped:
        if stopped.code is None or isinstance(stopped.code, int):
            code = stopped.code or 0
        else:
            print(stopped.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


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


if __name__ == "__main__":
    serve(int(sys.argv[1]))
