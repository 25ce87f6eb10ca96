import csv
import json
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import pytest
import report
from grid_report import tables
from PIL import Image

from tests.tools.report_place import RECALLS, ROOT, arguments, lines, read, table_cells, write, write_logs

INPUTS = {"paper": "experiments/paper_results.csv", "grids": "experiments/grids"}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    root = tmp_path_factory.mktemp("report")
    write(root, lines() + lines("CUB-200-2011"))
    write_logs(root)
    attempts = [{"exit_code": 1, "log_tail": ["first", "<b>broke</b>"]}]
    (root / "runs" / "emoji-x-seed0.json").write_text(json.dumps({"attempts": attempts}))
    # Interrupted, not failed; and failed once, but finished since.
    (root / "runs" / "emoji-y-seed0.json").write_text(json.dumps({"attempts": [{"exit_code": 130}]}))
    finished = lines()[0]["run"]
    (root / "runs" / f"{finished}.json").write_text(json.dumps({"attempts": attempts}))
    assert report.main(arguments(root)) == 0
    return root


def test_ours_stand_beside_the_paper_s(written):
    table = tables.main_table(read(written), "CUB-200-2011")
    cells = [dict(zip(table.header[2:5], row[2:5])) for row in table.rows]
    assert cells[0]["NMI"].startswith("71.17")
    header = table.header.index("R@1")
    row = next(row for row in table.rows if row[0] == "C-PROFS (table 1)")
    # 57.7 in the paper; 54.0 is the mean of 53, 53.5 and 55.5, and other settings are no part of it.
    assert row[header : header + 3] == ["54.00 ± 3.29", "57.7", "-3.70"]
    assert row[1] == "3"
    absent = next(row for row in table.rows if row[0] == "MS (table 1)")
    assert absent[1] == "0"
    assert absent[header : header + 3] == [tables.NOT_RUN, "56.4", tables.NOT_RUN]
    # Table 2 of the paper has no NMI of this row.
    quoted = next(row for row in table.rows if row[0] == "M-PROFS (table 2)")
    assert quoted[2:5] == [tables.NOT_RUN, tables.UNKNOWN, tables.NOT_RUN]
    assert not any("" in row for row in table.rows)


def test_every_row_of_the_paper_is_there_for_a_data_set_that_was_not_run(written):
    table = tables.main_table(read(written), "SOP")
    with open(ROOT / "experiments/paper_results.csv", newline="") as file:
        rows = {(row["table"], row["method"]) for row in csv.DictReader(file) if row["dataset"] == "SOP"}
    assert len(table.rows) == len(rows)
    assert {row[table.header.index("R@1000")] for row in table.rows} == {tables.NOT_RUN}


def test_own_data_sets_have_every_row_that_can_be_trained(written):
    table = tables.main_table(read(written), "emoji")
    assert table.header == ["method", "seeds", "NMI", "R@1"]
    names = [row[0] for row in table.rows]
    assert "Proxy-NCA (table 2)" in names
    assert "HDC (table 2)" not in names
    assert table_cells(table, method="C-PROFS (table 1)")["R@1"] == "54.00 ± 3.29"
    assert table_cells(table, method="MS-PROFS (table 1)")["R@1"] == tables.NOT_RUN


def test_differences_stand_beside_the_paper_s(written):
    table = tables.difference_table(read(written), "emoji")
    profs = table_cells(table, loss="contrastive", difference="PROFS - baseline")
    # 3, 2.5 and 3: s = 0.288675, times 4.302653 / sqrt(3).
    assert (profs["R@1"], profs["pairs"]) == ("+2.83 ± 0.72", "3")
    assert (profs["paper R@1 SOP"], profs["paper R@1 CUB-200-2011"]) == ("+2.2", "+1.0")
    mined = table_cells(table, loss="contrastive", difference="HNCM - PROFS")
    # 1 and 0: 0.5 +- t(0.975, 1) * 0.5 = 12.7062 * 0.5.
    assert (mined["R@1"], mined["pairs"]) == ("+0.50 ± 6.35", "2")
    absent = table_cells(table, loss="soft triple", difference="PROFS - baseline")
    assert (absent["R@1"], absent["pairs"]) == (tables.NOT_RUN, "0")


def test_curves_have_the_settings_of_their_axis_alone(written):
    data = read(written)
    points = tables.curve(data, ("1", "C-PROFS"), "emoji", "M")
    assert [(value, text, found.mean, rule) for value, text, found, rule in points] == [
        (1.0, "1", 51.0, False),
        (53.0, "53", 54.0, True),
        (600.0, "never", 49.0, False),
    ]
    points = tables.curve(data, ("1", "C-PROFS"), "emoji", "lambda")
    assert [(text, found.mean, found.count) for _, text, found, _ in points] == [
        ("0", 53.0, 3),
        ("0.001", 54.0, 3),
    ]
    assert tables.curve(data, ("1", "Contrastive-Hard"), "emoji", "M") == []
    cells = table_cells(tables.curve_table(data, "M"), **{"M": "53 (rule)", "data set": "emoji"})
    assert cells["R@1"] == "54.00 ± 3.29"


def test_cost_is_held_against_the_baseline(written):
    table = tables.cost_table(read(written), "emoji")
    mined = table_cells(table, method="C-PROFS-HNCM")
    assert (mined["ms per step"], mined["relative to baseline"], mined["processor s per run"]) == (
        "110",
        "1.10",
        "300",
    )
    # Seeds 1 and 2 do not know theirs; settings of further axes are no part of a row.
    assert table_cells(table, method="Contrastive-Hard")["processor s per run"] == "300"
    assert table_cells(table, method="C-PROFS")["processor s per run"] == "301"
    assert table_cells(table, method="MS")["relative to baseline"] == tables.NOT_RUN


def test_losses_come_in_the_order_of_the_paper(written):
    names = list(read(written).families)
    assert names[:4] == ["contrastive", "triplet_semi_hard", "triplet_hard", "lifted_structure"]
    assert names.index("multi_similarity") < names.index("soft_triple")
    rows = [row[0] for row in tables.main_table(read(written), "emoji").rows]
    assert rows[:3] == [f"{name} (table 1)" for name in ("Contrastive-Hard", "C-PROFS", "C-PROFS-HNCM")]


def test_failures_and_origins_are_told(written):
    data = read(written)
    assert [name for name, _ in data.failures] == ["emoji-x-seed0"]
    assert tables.failure_table(data).rows == [["emoji-x-seed0", "1", "<b>broke</b>"]]
    runs = str(2 * sum(len(percents) for percents in RECALLS.values()))
    assert tables.machine_table(data).rows == [
        ["aaaaaaaaaaaa+changes", "<Processor> & Co", "2", "2.15.1", runs]
    ]


def test_held_out_classes_are_kept_apart(tmp_path):
    write(tmp_path, lines() + lines(split="validation 0.2", run="other"))
    data = read(tmp_path)
    assert data.labels == ["emoji", "emoji (validation 0.2)"]
    assert tables.main_table(data, "CUB-200-2011").rows[0][2] == tables.NOT_RUN


class Loads(HTMLParser):
    """Collects what a page would fetch, and the elements."""

    def __init__(self):
        super().__init__()
        self.tags, self.sources = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.sources += [
            value for name, value in attrs if name in ("src", "srcset", "href", "poster", "data", "action")
        ]


def test_the_page_is_well_formed_and_loads_nothing(written):
    text = (written / "report" / "report.html").read_text("utf-8")
    root = ElementTree.fromstring(text.partition("\n")[2])
    assert root.tag == "html"
    assert root.find("head/meta[@name='viewport']") is not None
    loads = Loads()
    loads.feed(text)
    assert loads.sources
    assert all(source.startswith("data:image/png;base64,") for source in loads.sources)
    assert not {"script", "link", "iframe", "object", "embed"} & set(loads.tags)
    assert not re.search(r"https?:|//|@import|url\(", re.sub(r"data:image/png;base64,[^\"]*", "", text))
    assert "prefers-color-scheme: dark" in text
    assert loads.tags.count("source") == loads.tags.count("img")
    assert "&lt;b&gt;broke&lt;/b&gt;" in text
    assert '<td class="absent">not run</td>' in text
    assert all(image.get("alt") for image in root.iter("img"))


def test_pictures_are_written_for_markdown(written):
    folder = written / "report"
    text = (folder / "report.md").read_text("utf-8")
    names = re.findall(r"!\[[^\]]+\]\(pictures/([^)]+)\)", text)
    assert sorted(names) == sorted(path.name for path in (folder / "pictures").iterdir())
    wanted = (
        "change_of_recall_1",
        "recall_1_against_m",
        "recall_1_against_lambda",
        "learning_curves_contr",
        "cost",
    )
    for start in wanted:
        assert any(name.startswith(start) for name in names), start
    for name in names:
        with Image.open(folder / "pictures" / name) as picture:
            assert picture.width >= 600
            # More than an empty sheet.
            assert len(picture.convert("RGB").getcolors(1 << 20)) > 20
    assert "| C-PROFS (table 1) | 3 | 74.00 ± 3.29 | 54.00 ± 3.29 |" in text
    widths = [line.count("|") for line in text.split("## ")[1].splitlines() if line.startswith("|")]
    assert len(set(widths)) == 1


@pytest.mark.parametrize("has_header", [False, True])
def test_nothing_run_makes_a_report_of_nothing(has_header, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(report, "ROOT", tmp_path)
    words = [f"--{name}={ROOT / path}" for name, path in INPUTS.items()]
    if has_header:
        # As a grid leaves it whose only run was removed; the folder is not the default one.
        write(tmp_path, [])
        words.append(f"--results={tmp_path / 'results.csv'}")
    assert report.main([*words, f"--output_dir={tmp_path / 'report'}"]) == 0
    text = (tmp_path / "report" / "report.html").read_text("utf-8")
    ElementTree.fromstring(text.partition("\n")[2])
    # Three data sets, two curves, the machines.
    assert text.count("<details>") == 3 + 2 + 1
    assert "<img" not in text
    assert "0 finished runs" in text
    output = capsys.readouterr()
    assert "report.html" in output.out
    found = "results.csv has no line" if has_header else "results.csv does not exist yet"
    assert f"{found}: no run has finished. Every result is shown as not run.\n" in output.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "--results=nothing.csv",
            "--results must be a file, got nothing.csv, which does not exist. run_grid.py",
        ),
        ("--results=grids", "--results must be a file, got grids, a folder."),
        (
            "--results=empty.csv",
            "--results must have the columns table,.* got empty.csv, which is empty. Choose",
        ),
        ("--results=other.csv", "--results must have the columns table,.* got other.csv with a,b. Choose"),
        ("--runs_dir=nowhere", "--runs_dir must be a folder, got nowhere, which does not exist. It is"),
        ("--runs_dir=empty.csv", "--runs_dir must be a folder, got empty.csv, a file."),
        ("--runs_dir=records", "--runs_dir must hold the records of run_grid.py alone, got records/x.json"),
        (
            "--paper=nothing.csv",
            "--paper must be a file, got nothing.csv, which does not exist. Leave it out",
        ),
        ("--paper=other.csv", "--paper must be a CSV file with the columns table,.* got other.csv: 'table'."),
        ("--paper=empty.csv", "--paper must be a CSV file with the columns table,.*: it has no line."),
        ("--grids=nowhere", "--grids must be a folder, got nowhere, which does not exist. Leave it out"),
        ("--grids=grids", "--grids must hold grid files alone, got grids/bad.yaml: "),
        ("--output_dir=empty.csv", "--output_dir must be a folder, got empty.csv/pictures: .* is a file."),
    ],
)
def test_what_cannot_be_read_or_written_is_named_and_nothing_is_written(
    words, message, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, lines())
    for folder, file, content in (
        (".", "empty.csv", ""),
        (".", "other.csv", "a,b\n1,2\n"),
        ("grids", "bad.yaml", "- a\n- b\n"),
        ("records", "x.json", "{}"),
        ("runs", "x.json", '{"attempts": []}'),
    ):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / file).write_text(content)
    before = sorted(tmp_path.rglob("*"))
    assert report.main([*arguments(tmp_path), words]) == 2
    output, errors = capsys.readouterr()
    assert (output, errors.count("\n")) == ("", 1)
    assert re.match(f"report: {message}", errors)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_figure_that_two_runs_give_is_refused(tmp_path, capsys):
    (tmp_path / "runs").mkdir()
    write(tmp_path, [*lines(), *({**line, "run": "again", "percent": "99"} for line in lines()[:1])])
    assert report.main(arguments(tmp_path)) == 2
    message = "--results must have each figure once, got Contrastive-Hard on emoji, seed 0, R@1 from"
    assert message in capsys.readouterr().err
    assert not (tmp_path / "report").exists()
