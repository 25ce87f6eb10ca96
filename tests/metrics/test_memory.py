import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "benchmark_evaluation.py"


def gigabytes(*size):
    command = [sys.executable, str(TOOL), "memory", *size]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    line = next(line for line in output.splitlines() if "above the embeddings" in line)
    return float(line.split("embeddings")[1].split()[0])


def test_a_fraction_of_all_distances():
    # All distances would take 1.2 GB.
    assert gigabytes("--n=17000", "--d=32", "--classes=4000") < 0.4


@pytest.mark.slow
def test_stanford_online_products_in_two_gigabytes():
    assert gigabytes() < 2
