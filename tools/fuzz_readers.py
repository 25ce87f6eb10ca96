"""Fuzzes the readers of files that come from elsewhere, guided by coverage; needs `pip install atheris`.

    python tools/fuzz_readers.py
    python tools/fuzz_readers.py --readers=torch_zip,csv --seconds=600 --findings=findings

A reader must return, or raise one of the errors that a user is shown (ValueError, FileNotFoundError, ...); it
must not look up or run code that a file names, start a process, open a connection or write a file, and must
not allocate much more than the file has bytes. The tool prints executions and findings of each reader, keeps
the first input of each kind of finding, and exits with 1 if there is any. It is not part of the test command:
what it finds becomes a test of the reader.
"""

import argparse
import contextlib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

# For the `profs_tf` and the tests beside this file, whatever is installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzzing.readers import READERS
from fuzzing.watched import Watched

SECONDS = 100
MAX_BYTES = 4096


def fuzz(name, seconds, findings):
    """Fuzzes one reader in this process, which ends with it."""
    import atheris

    with atheris.instrument_imports(
        include=["profs_tf", "zipfile", "numpy.lib", "csv", "json", "absl.flags"]
    ):
        folder = Path(tempfile.mkdtemp())
        reader = READERS[name](folder)
        corpus = folder / "corpus"
        corpus.mkdir()
        for number, seed in enumerate(reader.seeds()):
            (corpus / str(number)).write_bytes(seed)
            # Modules that are imported when they are first needed.
            with contextlib.suppress(*reader.errors):
                reader(seed)
            with contextlib.suppress(*reader.errors):
                reader(seed[: len(seed) // 2])
    options = [f"-max_total_time={seconds}", f"-max_len={MAX_BYTES}", "-rss_limit_mb=4096", "-timeout=20"]
    atheris.Setup([sys.argv[0], str(corpus), *options], Watched(reader, findings))
    atheris.Fuzz()


def parse_arguments():
    """Returns the parsed command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--readers", default=",".join(READERS), help=f"default: {','.join(READERS)}")
    parser.add_argument("--seconds", type=int, default=SECONDS, help=f"for each reader; default {SECONDS}")
    parser.add_argument(
        "--findings", type=Path, default=Path("findings"), help="folder of inputs that break it"
    )
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if unknown := set(parsed.readers.split(",")) - set(READERS):
        parser.error(f"--readers must be of {', '.join(READERS)}, got {', '.join(sorted(unknown))}")
    return parsed


def fuzz_apart(name, seconds, findings):
    """Fuzzes one reader in a process and a scratch folder of its own; returns its executions and findings."""
    folder = findings.absolute() / name
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, __file__, "--here", f"--readers={name}", f"--seconds={seconds}"]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run(
            [*command, f"--findings={folder}"],
            cwd=scratch,
            env={**environment, "TMPDIR": scratch},
            capture_output=True,
            text=True,
            check=False,
        )
    found = [line for line in done.stdout.splitlines() if line.startswith("FINDING")]
    executions = re.search(r"Done (\d+) runs", done.stderr)
    if not executions:
        found.append(f"FINDING the process ended with {done.returncode}: {done.stderr[-2000:]}")
    return int(executions[1]) if executions else 0, found


def main():
    """Fuzzes the readers one after the other; returns the exit status."""
    parsed = parse_arguments()
    names = parsed.readers.split(",")
    if parsed.here:
        fuzz(names[0], parsed.seconds, parsed.findings)
    all_found = []
    for name in names:
        executions, found = fuzz_apart(name, parsed.seconds, parsed.findings)
        print(f"{name}: {executions:,} executions, {len(found)} kinds of findings", flush=True)
        print("".join(f"  {line}\n" for line in found), end="", flush=True)
        all_found += found
    return int(bool(all_found))


if __name__ == "__main__":
    sys.exit(main())
