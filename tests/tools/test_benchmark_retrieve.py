import re
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "benchmark_retrieve.py"


@pytest.mark.slow
def test_a_killed_index_is_continued_to_the_same_bits_and_searched_within_a_second(tmp_path):
    command = [sys.executable, str(TOOL), "--images=6000", "--d=64", f"--work_dir={tmp_path}"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert re.search(r"killed after \d+ chunks, continued +equal\n", output), output
    assert float(re.search(r"each further query, median +([\d.]+) s", output).group(1)) < 1
