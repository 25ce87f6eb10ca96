from pathlib import Path

import pytest

from tests.helpers.forked_process import run_forked

TOOL = Path(__file__).parents[2] / "tools" / "benchmark_mining.py"
SMALL = [
    *("--backbone=conv4", "--image_size=32", "--batch_size=8", "--embedding_dim=4"),
    *("--classes_per_batch=8", "--steps=2", "--draws=2"),
]


@pytest.mark.slow
def test_prints_ratios_and_waits_and_tells_by_its_status():
    result = run_forked(TOOL, *SMALL)
    lines = result.stdout.splitlines()
    assert lines[0].startswith("conv4, 8 images of 32 pixels: "), result.stderr
    shares = []
    for line, classes, bound in ((lines[1], "100", 0.01), (lines[2], "11,318", 0.5)):
        assert line.startswith(f"mining of 8 of {classes} classes")
        assert line.endswith(f"(bound: {bound:g} %)")
        shares.append(float(line.split(" ms, ")[1].split(" %")[0]) / bound)
    # So small a network's steps are short: mining takes more than its share of them.
    assert max(shares) > 1
    assert result.returncode == 1, result.stderr
    assert lines[3].startswith("training waits for a mined batch: median ")
    assert lines[4].startswith("training waits for a plain batch: median ")
