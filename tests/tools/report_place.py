"""Results of made-up runs, for the tests of the report."""

import csv
import sys
from pathlib import Path

TOOLS = Path(__file__).parents[2] / "tools"
sys.path.insert(0, str(TOOLS))

from grid_report.data import ReportData  # noqa: E402
from grid_runs.results import COLUMNS  # noqa: E402

ROOT = TOOLS.parent
RECALLS = {
    ("Contrastive-Hard", "baseline", ""): (50.0, 51.0, 52.5),
    ("C-PROFS", "profs", ""): (53.0, 53.5, 55.5),
    ("C-PROFS-HNCM", "profs_hncm", ""): (54.0, 53.5),
    ("C-PROFS", "profs", "M=1"): (51.0,),
    ("C-PROFS", "profs", "M=never"): (49.0,),
    ("C-PROFS", "profs", "lambda=0"): (52.0, 53.0, 54.0),
}
STEPS = {"": "53", "M=1": "1", "M=never": "1000000", "lambda=0": "53"}


def lines(dataset="emoji", split="test", **changes):
    found = []
    for (method, variant, setting), percents in RECALLS.items():
        for seed, percent in enumerate(percents):
            line = {
                **dict.fromkeys(COLUMNS, ""),
                "table": "1",
                "method": method,
                "dataset": dataset,
                "seed": str(seed),
                "setting": setting,
                "split": split,
                "variant": variant,
                "steps_per_projection": STEPS[setting],
                "proximal_weight": "0.0" if variant == "baseline" or setting == "lambda=0" else "0.001",
                "steps": "600",
                "step_milliseconds": "110" if variant == "profs_hncm" else "100",
                "cpu_seconds": "" if variant == "baseline" and seed else str(300 + seed),
                "commit": "a" * 40 + "+changes",
                "cores": "2",
                "cpu": "<Processor> & Co",
                "tensorflow": "2.15.1",
                "run": f"{dataset}-{method}-{setting}-seed{seed}",
                **changes,
            }
            found.append({**line, "metric": "R@1", "percent": str(percent)})
            found.append({**line, "metric": "NMI", "percent": str(percent + 20)})
    return found


def write(root, rows):
    with open(root / "results.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_logs(root):
    for line in lines():
        folder = root / "runs" / line["run"]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "log.csv").write_text("epoch,step,recall@1\n0,0,0.2\n1,60,0.4\n2,120,0.5\n")


def arguments(root):
    return [
        f"--results={root / 'results.csv'}",
        f"--runs_dir={root / 'runs'}",
        f"--output_dir={root / 'report'}",
    ]


def read(root):
    return ReportData(
        root / "results.csv",
        root / "runs",
        ROOT / "experiments/paper_results.csv",
        ROOT / "experiments/grids",
    )


def table_cells(table, **wanted):
    """Returns the cells by column of the row whose cells begin with the wanted ones."""
    for row in table.rows:
        cells = dict(zip(table.header, row))
        if all(cells[name] == text for name, text in wanted.items()):
            return cells
    raise KeyError(wanted)
