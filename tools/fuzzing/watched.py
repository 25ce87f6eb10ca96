"""What a fuzzed reader must not do."""

import collections
import re
import sys
import tempfile
import traceback
import tracemalloc
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "profs_tf"
# Of one execution: some are spent on messages, regular expressions and caches.
MEMORY = 16 * 2**20
# What reading a file must never do, as Python's audit events; modules are imported before.
FORBIDDEN = {"pickle.find_class", "os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen",
             "socket.connect", "import", "os.remove", "os.rename", "os.mkdir", "os.rmdir"}  # fmt: skip


class Watched:
    """A reader whose every execution is held to the contract; collects what breaks it, each kind once.

    Attributes:
        findings: Kind of finding to how often it came.
    """

    def __init__(self, read, folder):
        self.findings = collections.Counter()
        self._read, self._folder, self._reading = read, folder, False
        sys.addaudithook(self._audit)
        tracemalloc.start()

    def _audit(self, event, arguments):
        if not self._reading:
            return
        writes = event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")
        # Python imports the codec of a text when it first needs it.
        codec = event == "import" and str(arguments[0]).startswith("encodings.")
        if (event in FORBIDDEN and not codec) or (writes and not self._own(arguments[0])):
            self._reading = False
            raise RuntimeError(f"forbidden: {event} {arguments!r:.100}")

    @staticmethod
    def _own(path):
        return str(path).startswith(tempfile.gettempdir())

    def __call__(self, data):
        """Reads one input."""
        tracemalloc.reset_peak()
        before, unexpected = tracemalloc.get_traced_memory()[0], None
        self._reading = True
        try:
            self._read(data)
        except self._read.errors:
            pass
        except Exception as error:
            unexpected = error
        finally:
            self._reading = False
        peak = tracemalloc.get_traced_memory()[1] - before
        if unexpected is not None:
            self._report(unexpected, data)
        if peak > MEMORY + 20 * len(data):
            self._report(MemoryError(f"{peak >> 20} MB for a file of {len(data):,} bytes"), data)

    def _report(self, error, data):
        frames = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if PACKAGE in Path(frame.filename).resolve().parents
        ]
        place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "memory"
        kind = f"{type(error).__name__} at {place}"
        if kind not in self.findings:
            (self._folder / re.sub(r"\W+", "_", kind)).write_bytes(data)
            print(f"FINDING {kind}: {error}", flush=True)
        self.findings[kind] += 1
