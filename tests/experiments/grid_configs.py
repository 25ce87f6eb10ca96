"""The configurations of the grid files, read once, since that takes long."""

import functools
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from grid_runs.grid_file import read_grid  # noqa: E402

GRIDS = sorted((ROOT / "experiments/grids").glob("*.yaml"))
# Grids by which values are chosen.
FORMS = ("cars_part_forms", "emoji_margins")
CHOOSING = (
    "cars_part_forms",
    "cars_part_tuning",
    "cars_part_whitened_tuning",
    "emoji_ablations",
    "emoji_margins",
    "emoji_pull",
    "emoji_regimes",
    "emoji_rivals_tuning",
    "emoji_tuning",
)
LOSSES = {
    "contrastive",
    "triplet",
    "lifted_structure",
    "n_pair",
    "angular",
    "margin",
    "multi_similarity",
    "soft_triple",
}
FOLDER = Path("folder")


@functools.cache
def configs_in(path):
    """Returns the runs of a grid file, each with its configuration."""
    return {run: run.config(FOLDER / run.name) for run in read_grid(path)}


def configs_of(name):
    """Returns those of the grid file with a name."""
    return configs_in(ROOT / f"experiments/grids/{name}.yaml")


def epochs_and_steps(config):
    """Returns epochs and their steps, of CCP's in fours: it evaluates four times as often."""
    if config.method == "ccp":
        return config.epochs / 4, config.steps_per_epoch * 4
    return config.epochs, config.steps_per_epoch


def patience_that_acts(config):
    """Returns the patience if it can end a run."""
    return config.patience if config.patience and config.patience < config.epochs else None
