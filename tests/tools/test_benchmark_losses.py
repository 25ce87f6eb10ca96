import csv
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
def test_prints_every_loss_and_tells_by_its_status(target, status, tmp_path):
    path = tmp_path / "costs.csv"
    result = run_forked(TOOL, *SMALL, f"--target={target}", f"--results={path}")
    assert result.returncode == status, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith("conv4, 2 images: ")
    assert len(lines) == 2 + 2 * 18
    for name in (
        "contrastive hard",
        "triplet semi_hard",
        "margin distance_weighted, PROFS",
        "proxy_nca",
        "contrastive hard, memory",
        "contrastive hard, CCP",
    ):
        assert any(line.startswith(name) and line.endswith(" MB") for line in lines)
    assert ("Above 0.0%" in result.stderr) == bool(status)
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    kept = {row["loss"]: float(row["megabytes"]) for row in rows}
    assert len(rows) == 2 * 18
    (plain,) = (row for row in rows if (row["loss"], row["queries"]) == ("contrastive hard", "all"))
    assert plain["step_to_contrastive"] == "1.0000"
    # Four proxies of four numbers with two moments each.
    assert (kept["contrastive hard"], kept["proxy_nca"]) == (0, 0.0002)
