"""Reports the results of grids: tables beside the paper's, differences, curves and cost.

    python tools/report.py
    python tools/report.py --results=runs/results.csv --runs_dir=runs/grid --output_dir=runs/report

Reads the CSV and the run folders of tools/run_grid.py, finished or not, and writes into --output_dir
report.html (one file, which loads nothing), report.md, and the folder pictures with the PNG files of
report.md. Results without a run are shown as "not run".
"""

from __future__ import annotations

import argparse
import re
import sys

from command_line import ROOT, check_input_file, check_input_folder, run_steps
from grid_report import decomposition, plots, tables
from grid_report.data import ReportData
from grid_report.page import Page

from profs_tf.utils.files import check_folder_output, expanded, write_atomically

# What a grid writes, which may not be there yet unless its flag is given.
_OF_GRID = {"results": "runs/results.csv", "runs_dir": "runs/grid"}


def parse_arguments(arguments: list | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    for name, text in (("results", "the CSV of run_grid.py"), ("runs_dir", "folder of the runs")):
        default = _OF_GRID[name]
        parser.add_argument(
            f"--{name}", type=expanded, help=f"{text} ({default}, which may not be there yet)"
        )
    for name, default, text in (
        ("output_dir", "runs/report", "folder to write to"),
        ("paper", "experiments/paper_results.csv", "the CSV of the paper's figures"),
        ("grids", "experiments/grids", "folder of the grid files, which define the rows"),
    ):
        parser.add_argument(f"--{name}", type=expanded, default=ROOT / default, help=f"{text} ({default})")
    return parser.parse_args(arguments)


def check_arguments(arguments: argparse.Namespace) -> None:
    """Raises an error unless the inputs exist and the output can be written; fills in what a grid writes."""
    for name, check, cure in (
        ("results", check_input_file, "run_grid.py writes it when its first run has finished."),
        ("runs_dir", check_input_folder, "It is the --runs_dir of run_grid.py."),
    ):
        default = ROOT / _OF_GRID[name]
        if getattr(arguments, name) is None:
            setattr(arguments, name, default)
            if not default.exists():
                continue
        check(name, getattr(arguments, name), cure)
    check_input_file("paper", arguments.paper, "Leave it out for experiments/paper_results.csv.")
    check_input_folder("grids", arguments.grids, "Leave it out for experiments/grids.")
    check_folder_output("output_dir", arguments.output_dir / "pictures")


def build_page(data: ReportData) -> Page:
    """Returns the report."""
    num_runs = len({line["run"] for line in data.lines})
    page = Page(
        "PROFS: results of the grids",
        f"{num_runs} finished runs, {len(data.failures)} failed. Recall@K, NMI and F1 on classes that did "
        "not train, in percent.",
    )
    own = [label for label in data.labels if label not in data.paper_data_sets()]
    for label in [*own, *data.paper_data_sets()]:
        page.add_table(tables.main_table(data, label))
    for label in data.labels:
        page.add_table(tables.recall_table(data, label))
        page.add_table(tables.difference_table(data, label))
        page.add_table(decomposition.verdict_table(data, label))
        page.add_table(decomposition.decomposition_table(data, label))
    add(page, data, "Change of Recall@1", plots.differences)
    add(page, data, "Change of Recall@1 by part", plots.parts)
    for axis in tables.AXES:
        page.add_table(tables.curve_table(data, axis))
        add(page, data, f"Recall@1 against {axis}", plots.curves_along, [axis])
    add(page, data, "Learning curves", plots.learning_curves, list(data.families))
    for label in data.labels:
        page.add_table(tables.cost_table(data, label))
    add(page, data, "Cost of a step", plots.cost)
    page.add_table(tables.machine_table(data))
    if data.failures:
        page.add_table(tables.failure_table(data))
    return page


def add(page: Page, data: ReportData, title: str, draw, subjects: list | None = None) -> None:
    """Adds a picture per data set, and per subject if `draw` takes one."""
    pictures = []
    for label in data.labels:
        for subject in [[]] if subjects is None else [[subject] for subject in subjects]:
            drawn = [draw(data, *subject, label, theme) for theme in plots.THEMES]
            text = ", ".join([title, *(part for part in subject if not title.endswith(part)), label])
            name = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
            pictures.append((name, text, *drawn) if drawn[0] else None)
    page.add_pictures(title, pictures)


def write_report(arguments: argparse.Namespace) -> None:
    """Reads everything, writes the report and prints where it is."""
    data = ReportData(arguments.results, arguments.runs_dir, arguments.paper, arguments.grids)
    if not data.lines:
        found = "has no line" if arguments.results.exists() else "does not exist yet"
        print(
            f"report: {arguments.results} {found}: no run has finished. Every result is shown as not run.",
            file=sys.stderr,
        )
    page = build_page(data)
    folder = arguments.output_dir / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    for name, png in page.pictures.items():
        (folder / name).write_bytes(png)
    write_atomically(arguments.output_dir / "report.md", page.markdown())
    write_atomically(arguments.output_dir / "report.html", page.html())
    print(f"{arguments.output_dir / 'report.html'}\n{arguments.output_dir / 'report.md'}")


def main(arguments: list | None = None) -> int:
    """Writes the report; returns the exit code."""
    return run_steps(parse_arguments(arguments), __file__, check_arguments, write_report)


if __name__ == "__main__":
    sys.exit(main())
