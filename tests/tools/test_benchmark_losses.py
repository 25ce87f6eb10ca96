from pathlib import Path

import pytest

from tests.helpers.forked_process import run_forked

TOOL = Path(__file__).parents[2] / "tools" / "benchmark_losses.py"
SMALL = [
    *("--backbone=conv4", "--images=2", "--image_size=32"),
    *("--batch_size=8", "--embedding_dim=4", "--num_classes=4", "--repeats=1", "--memory=16"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("target", "status"), [("0", 1), ("1e9", 0)])
def test_prints_every_loss_and_tells_by_its_status(target, status):
    result = run_forked(TOOL, *SMALL, f"--target={target}")
    assert result.returncode == status, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith("conv4, 2 images: ")
    assert len(lines) == 1 + 2 * 18
    for name in (
        "contrastive hard",
        "triplet semi_hard",
        "margin distance_weighted, PROFS",
        "proxy_nca",
        "contrastive hard, memory",
        "contrastive hard, CCP",
    ):
        assert any(line.startswith(name) and line.endswith("%") for line in lines)
    assert ("Above 0.0%" in result.stderr) == bool(status)
