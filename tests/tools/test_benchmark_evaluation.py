from pathlib import Path

import pytest

from tests.helpers.forked_process import run_forked

TOOL = Path(__file__).parents[2] / "tools" / "benchmark_evaluation.py"


def gigabytes(*size):
    done = run_forked(TOOL, "memory", *size, timeout=1500)
    assert done.returncode == 0, done.stderr
    output = done.stdout
    line = next(line for line in output.splitlines() if "above the embeddings" in line)
    return float(line.split("embeddings")[1].split()[0])


@pytest.mark.slow
def test_a_fraction_of_all_distances():
    # All distances would take 1.2 GB.
    assert gigabytes("--n=17000", "--d=32", "--classes=4000") < 0.4


@pytest.mark.slow
def test_stanford_online_products_in_two_gigabytes():
    assert gigabytes() < 2
