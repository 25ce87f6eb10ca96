import csv
import sys
from pathlib import Path

import pytest

from tests.helpers.forked_process import run_forked

TOOL = Path(__file__).parents[2] / "tools" / "benchmark_losses.py"
sys.path.insert(0, str(TOOL.parent))

import benchmark_losses  # noqa: E402

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


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--batch_size=0", "--batch_size must be a whole number >= 1, got 0."),
        ("--repeats=0", "--repeats must be a whole number >= 1, got 0."),
        ("--num_classes=1", "--num_classes must be a whole number >= 2, got 1."),
        ("--image_size=8", "--image_size must be a whole number >= 16, got 8. conv4 needs it."),
        ("--target=-1", "--target must be >= 0 and finite, got -1.0."),
        ("--backbone=nosuch", "--backbone must be one of bn_inception, "),
        ("--results=.", "--results must be a file in a folder that exists, got ."),
        ("--results=other.csv", "--results must have the columns loss,queries,"),
        ("--results=binary.csv", "--results must be a CSV file, got binary.csv: "),
    ],
)
def test_arguments_are_checked_before_anything_is_measured(argument, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(benchmark_losses, "measure_all", None)
    contents = {"other.csv": b"a,b\n1,2\n", "binary.csv": b"\xff\xfe"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    assert benchmark_losses.main([*SMALL, argument]) == 2
    output, errors = capsys.readouterr()
    assert (output, errors.count("\n")) == ("", 1)
    assert errors.startswith(f"benchmark_losses: {message}")
    assert {name: (tmp_path / name).read_bytes() for name in contents} == contents


@pytest.mark.parametrize("before", [None, "", "with a header"])
def test_lines_are_added_below_one_header(before, tmp_path):
    path = tmp_path / "costs.csv"
    header, line = ",".join(benchmark_losses.COLUMNS), dict.fromkeys(benchmark_losses.COLUMNS, "1")
    if before is not None:
        # Written by hand: its last line does not end.
        path.write_text(header if before else "")
    benchmark_losses.add_lines(path, [line])
    benchmark_losses.add_lines(path, [line, line])
    assert path.read_text().splitlines() == [header, *[",".join("1" for _ in line)] * 3]
