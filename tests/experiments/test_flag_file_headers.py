"""The comments that flag files open with: commands, the figures of the paper's tables, our own scores."""

import csv
import re
import shlex

import pytest

from tests.experiments.flag_files import DATA_SETS, EXPERIMENTS, ROWS, parse, row_file
from tests.experiments.grid_configs import ROOT

# Rows of table 2 that the paper only quotes: other methods, and the multi-similarity loss, which its authors
# trained on another network than the one of table 1.
QUOTED_ROWS = {("2", name) for name in ("Clustering", "HDC", "HTL", "MS", "TML")}


def header(file):
    """Returns the comment that a file opens with, without its number signs."""
    lines = []
    for line in (ROOT / file).read_text("utf-8").splitlines():
        if not line.startswith("#"):
            break
        lines.append(line[1:])
    return lines


def command_in(file):
    """Returns the arguments of the one command in a file's header."""
    commands = [line.strip() for line in header(file) if "python -m" in line]
    assert len(commands) == 1
    words = shlex.split(commands[0])
    assert words[:3] == ["python", "-m", "profs_tf.train"]
    return words[3:]


def papers_figures():
    with open(EXPERIMENTS / "paper_results.csv", encoding="utf-8", newline="") as file:
        return {
            (row["table"], row["method"], row["dataset"], row["metric"]): row["percent"]
            for row in csv.DictReader(file)
        }


def figures_in(file):
    """Returns {(data set, metric): text} of the table in a file's header, '-' left out."""
    names = {values[0] for values in DATA_SETS.values()}
    columns, figures = None, {}
    for line in header(file):
        words = line.split()
        if "R@1" in words:
            columns = words
        elif words and words[0] in names:
            assert len(words) == len(columns) + 1
            figures.update(((words[0], name), text) for name, text in zip(columns, words[1:]) if text != "-")
    return figures


@pytest.mark.parametrize("data_set", DATA_SETS)
def test_the_command_of_a_data_set_runs_it(data_set):
    arguments = command_in(f"experiments/{data_set}.flags")
    assert parse(arguments).data_dir.startswith("FOLDER_OF_")
    without_folder = [argument for argument in arguments if not argument.startswith("--data_dir=")]
    assert without_folder == [f"--flagfile=experiments/{data_set}.flags", "--pretrained=FILE"]


@pytest.mark.parametrize("row", ROWS)
def test_the_command_of_a_row_runs_it(row):
    arguments = command_in(row_file(row))
    assert arguments == [
        "--flagfile=experiments/cub.flags",
        "--data_dir=FOLDER",
        "--pretrained=FILE",
        f"--flagfile={row_file(row)}",
        f"--output_dir=runs/cub_{row}",
    ]
    assert parse(arguments).output_dir == f"runs/cub_{row}"


@pytest.mark.parametrize("row", ROWS)
def test_figures_in_headers_are_the_papers(row):
    table, name, _ = ROWS[row]
    assert header(row_file(row))[0].startswith(f" Table {table} of the paper, row {name}: ")
    expected = {key[2:]: text for key, text in papers_figures().items() if key[:2] == (table, name)}
    assert expected
    assert figures_in(row_file(row)) == expected


def test_every_row_the_authors_trained_has_its_file():
    in_paper = {key[:2] for key in papers_figures()}
    assert in_paper >= QUOTED_ROWS
    trained = in_paper - QUOTED_ROWS
    assert sorted((table, name) for table, name, _ in ROWS.values()) == sorted(trained)


@pytest.mark.parametrize("name", ["emoji", "emoji_table", "emoji_plain"])
def test_an_emoji_file_opens_with_its_command_minutes_and_score(name):
    file = f"experiments/{name}.flags"
    command, cost_and_score = header(file)[:2]
    assert command.split() == ["python", "-m", "profs_tf.train", *command_in(file)]
    assert parse(command_in(file)).output_dir == f"runs/{name}"
    scores = {key: float(text) for key, text in re.findall(r"(Recall@\d+) ([\d.]+) %", cost_and_score)}
    assert re.match(r" \d minutes on two cores\. Recall@1 ", cost_and_score)
    assert scores == {key: measured(name)[key] for key in scores}


def measured(name):
    """Percent of the margin loss with PROFS and seed 0, in the README or in the committed results."""
    if name == "emoji":
        row = re.search(
            r"^\| PROFS, 600 steps (.+) \|$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE
        )
        percents = [float(cell) for cell in row.group(1).split("|")[1:5]]
        return {f"Recall@{k}": round(percent, 1) for k, percent in zip((1, 2, 4, 8), percents)}
    label = {"emoji_table": "emoji", "emoji_plain": "emoji-plain"}[name]
    with open(EXPERIMENTS / "results/emoji.csv", encoding="utf-8", newline="") as file:
        return {
            row["metric"].replace("R@", "Recall@"): round(float(row["percent"]), 1)
            for row in csv.DictReader(file)
            if (row["dataset"], row["method"], row["seed"], row["setting"]) == (label, "M-PROFS", "0", "")
        }
