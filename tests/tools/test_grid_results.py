"""The results file of grids, and the commit that it names."""

import re
import subprocess

import pytest
from grid_runs import machine, results


def test_results_of_another_form_are_not_overwritten(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(
        ValueError, match="`results` must have the columns table,method,dataset,metric,percent"
    ):
        results.add_results(path, [])
    assert path.read_text() == "a,b\n1,2\n"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("percent", "nan", "`percent` must be a number from 0 to 100, got 'nan' in line 2"),
        ("percent", "100.5", "`percent` must be a number from 0 to 100"),
        ("percent", "", "`percent` must be a number from 0 to 100"),
        ("seed", "1.5", "`seed` must be a whole number, got '1.5' in line 2"),
        ("metric", "R@x", "`metric` must be NMI, F1 or R@K"),
    ],
)
def test_a_cell_that_is_none_is_refused(tmp_path, name, value, message):
    path = tmp_path / "results.csv"
    cells = {**dict.fromkeys(results.COLUMNS, ""), "seed": "0", "metric": "R@1", "percent": "50", name: value}
    path.write_text(",".join(results.COLUMNS) + "\n" + ",".join(cells.values()) + "\n")
    with pytest.raises(ValueError, match=message):
        results.read_results(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            ",".join(results.COLUMNS).encode() + b"\n1,A,small\n",
            "25 cells a line, got another number in line 2",
        ),
        (b"\xff\xfe\x00", "must be a CSV file"),
        (b"", r"results\.csv, which is empty\. Choose another file\."),
        (b"\n1,2\n", "results.csv with an empty first line"),
    ],
)
def test_a_broken_results_file_is_refused(tmp_path, content, message):
    path = tmp_path / "results.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        results.read_results(path)


def test_a_spreadsheet_s_byte_order_mark_is_read_over(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text("\ufeff" + ",".join(results.COLUMNS) + "\n", encoding="utf-8")
    assert results.read_results(path) == []


def test_a_run_s_lines_are_replaced_where_they_stand(tmp_path):
    path = tmp_path / "results.csv"

    def line(run, percent):
        texts = {"run": run, "seed": "0", "metric": "R@1", "percent": percent}
        return {**dict.fromkeys(results.COLUMNS, ""), **texts}

    results.add_results(path, [line("a", "1"), line("b", "2")])
    results.add_results(path, [line("a", "3")])
    results.add_results(path, [line("c", "4")])
    assert [(row["run"], row["percent"]) for row in results.read_results(path)] == [
        ("a", "3"),
        ("b", "2"),
        ("c", "4"),
    ]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["results.csv"]


def test_the_commit_tells_of_changes(tmp_path):
    def git(*arguments):
        identity = ("-c", "user.name=n", "-c", "user.email=e@example.org")
        subprocess.run(["git", "-C", tmp_path, *identity, *arguments], check=True, capture_output=True)

    assert machine.describe_commit(tmp_path / "nowhere") == "unknown"
    git("init")
    (tmp_path / "file").write_text("1")
    git("add", ".")
    git("commit", "-m", "One")
    clean = machine.describe_commit(tmp_path)
    assert re.fullmatch("[0-9a-f]{40}", clean)
    (tmp_path / "file").write_text("2")
    assert machine.describe_commit(tmp_path) == f"{clean}+changes"
