"""What the fuzzer takes for a finding; and that its seeds are files that the readers read."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "fuzz_readers.py"
# In a process of its own: Python's audit hooks cannot be removed.
PROGRAM = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from fuzzing.watched import Watched

class Reader:
    errors = (ValueError,)
    def __call__(self, data):
        exec(data.decode())

watched = Watched(Reader(), Path("."))
for code in sys.argv[2:]:
    watched(code.encode())
print(dict(watched.findings), sorted(os.listdir(".")))
"""


def findings(folder, *codes):
    command = [sys.executable, "-c", PROGRAM, str(TOOL.parent), *codes]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=100)
    return done.stdout.splitlines()[-1]


def test_errors_for_users_are_none(tmp_path):
    assert findings(tmp_path, "1", "raise ValueError('refused')", "bytes(10**6)") == "{} []"


def test_other_errors_code_that_runs_and_memory_are_findings_each_kind_once(tmp_path):
    found = findings(
        tmp_path,
        "raise TypeError('1')",
        "raise TypeError('2')",
        "import os; os.system('touch trace')",
        "open('trace', 'w')",
        "bytes(10**8)",
    )
    assert found.startswith(
        "{'TypeError at memory': 2, 'RuntimeError at memory': 2, 'MemoryError at memory': 1}"
    )
    assert "trace" not in found


@pytest.mark.parametrize(
    "name", ["torch_legacy", "torch_zip", "safetensors", "caffe_npz", "csv", "index", "flags"]
)
def test_the_readers_read_their_seeds(name, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(TOOL.parent))
    from fuzzing.readers import READERS

    monkeypatch.setattr("absl.flags._flagvalues._helpers.get_flag_suggestions", lambda *arguments: [])
    reader = READERS[name](tmp_path)
    seeds = list(reader.seeds())
    assert seeds
    for seed in seeds[-1:] if name == "flags" else seeds:
        reader(seed)
