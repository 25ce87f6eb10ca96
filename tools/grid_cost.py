r"""Estimates the GPU hours and the memory of a grid on the paper's data sets, which need not be there.

    python tools/grid_cost.py
    python tools/grid_cost.py --grid=experiments/grids/paper.yaml --tflops=20

Prints a table with a line per data set and network, for one setting of the axes. A training step counts as
three times the forward pass of its batch, an evaluation as one pass of the test images. The forward pass is
counted by TensorFlow's profiler (see backbone_table.py). --tflops is an assumption: what the GPU sustains,
which is a third or less of what its maker states. Loading images, clustering and the loss are not counted.

Memory is that of the weights (five times: weights, gradients, two moments, anchors) and of what a step keeps
for its gradients, read from the graph of the step; libraries take more.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
from backbone_table import flops
from command_line import ROOT, explain
from grid_runs.grid_file import DEFAULT_SETTING, read_grid, selected

from profs_tf import backbones
from profs_tf.config import Config
from profs_tf.datasets.cars196 import CARS196
from profs_tf.datasets.cub200 import CUB200
from profs_tf.datasets.official_split import OfficialDataset
from profs_tf.datasets.sop import SOP
from profs_tf.inputs.preprocessing import Preprocessing
from profs_tf.utils.checks import check_finite_above
from profs_tf.utils.files import expanded

_SETS = {dataset.name: dataset for dataset in (CUB200, CARS196, SOP)}
_FORWARD_PASSES_OF_A_STEP = 3
_COPIES_OF_WEIGHTS = 5
_BACKWARD = "gradient_tape/"


def parse_arguments(arguments: list | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    default = "experiments/grids/paper.yaml"
    parser.add_argument("--grid", type=expanded, default=ROOT / default, help=f"the grid file ({default})")
    parser.add_argument("--tflops", type=float, default=5.0, help="10^12 operations a second (5)")
    parser.add_argument("--table", metavar="TABLE", help="only the rows of a table of the paper")
    parser.add_argument(
        "--setting",
        metavar="SETTING",
        default=DEFAULT_SETTING,
        help=f"values of the axes ({DEFAULT_SETTING})",
    )
    return parser.parse_args(arguments)


def operations(config: Config, dataset: OfficialDataset, forward: int) -> int:
    """Returns the floating-point operations of a run.

    Args:
        config: Of the run.
        dataset: What it trains on.
        forward: Those of one image in evaluation.
    """
    steps_per_epoch = config.steps_per_epoch or -(-dataset.num_train_images // config.batch_size)
    trained = config.epochs * steps_per_epoch * config.batch_size
    # Before training, then every so many epochs, and the best epoch again to cluster it.
    evaluations = 1 + -(-config.epochs // config.evaluate_every) + (config.clustering == "best")
    images = _FORWARD_PASSES_OF_A_STEP * trained + evaluations * dataset.num_test_images
    return images * forward


def kept_for_gradients(backbone: str, batch_size: int, side: int) -> int:
    """Returns the bytes of the tensors that a step computes first and reads again for its gradients."""
    network = backbones.get(backbone)((side, side, 3))

    @tf.function
    def step(images: tf.Tensor) -> list:
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(network(images, training=True))
        return tape.gradient(total, network.trainable_variables)

    graph = step.get_concrete_function(tf.TensorSpec([batch_size, side, side, 3])).graph
    kept = {
        tensor.name: tensor.shape.num_elements() * tensor.dtype.size
        for operation in graph.get_operations()
        if operation.name.startswith(_BACKWARD)
        for tensor in operation.inputs
        if not tensor.op.name.startswith(_BACKWARD) and _is_of_batch(tensor, batch_size)
    }
    return sum(kept.values())


def _is_of_batch(tensor: tf.Tensor, batch_size: int) -> bool:
    return tensor.shape.is_fully_defined() and tensor.shape.rank > 1 and tensor.shape[0] == batch_size


def _side(config: Config) -> int:
    return config.image_crop or Preprocessing().crop


def memory(backbone: str, config: Config) -> int:
    """Returns the bytes that a run needs at least, with the head."""
    side = _side(config)
    network = backbones.get(backbone)((side, side, 3))
    weights = sum(int(np.prod(variable.shape)) for variable in network.trainable_variables)
    weights += (network.output_shape[-1] + 1) * config.embedding_dim
    return 4 * _COPIES_OF_WEIGHTS * weights + kept_for_gradients(backbone, config.batch_size, side)


def lines(runs: list, tflops: float) -> list:
    """Returns the lines of the table.

    Raises:
        ValueError: If a run has a wrong flag, or trains on another data set than those of the paper.
    """
    groups = {}
    for run in runs:
        config = run.config(Path("runs"))
        if config.dataset not in _SETS:
            raise ValueError(
                f"`grid` must train on {', '.join(_SETS)}, whose numbers of images are known, got "
                f"{config.dataset}. Choose another grid."
            )
        if config.train_layers == "head":
            raise ValueError(
                "`grid` must train networks, whose passes are counted, got `train_layers` head, for which "
                "features are computed once. Choose another grid."
            )
        groups.setdefault((run.dataset, config.backbone), []).append(config)
    networks = {(backbone, _side(of_group[0])): of_group[0] for (_, backbone), of_group in groups.items()}
    forward = {key: flops(key[0], key[1]) for key in networks}
    needed = {key: memory(key[0], config) for key, config in networks.items()}
    found = []
    for (dataset, backbone), of_group in groups.items():
        key = backbone, _side(of_group[0])
        total = sum(operations(config, _SETS[config.dataset], forward[key]) for config in of_group)
        hours = total / (tflops * 1e12) / 3600
        found.append(
            f"| {dataset} | `{backbone}` | {forward[key] / 1e9:.2f} | {hours / len(of_group):.1f} | "
            f"{needed[key] / 1e9:.1f} | {len(of_group)} | {hours:.0f} |"
        )
    return found


def estimate(grid: Path, tflops: float, table: str | None, setting: str) -> list:
    """Returns the lines of a grid's table.

    Raises:
        ValueError: If an argument is out of range, or the grid does not have what it asks for.
    """
    check_finite_above("tflops", tflops, 0.0)
    return lines(selected(read_grid(grid), table, setting), tflops)


def main(arguments: list | None = None) -> int:
    """Prints the table; returns the exit code."""
    parsed = parse_arguments(arguments)
    grid = parsed.grid.resolve()
    # Flag files name each other relative to the repository.
    os.chdir(ROOT)
    try:
        rows = estimate(grid, parsed.tflops, parsed.table, parsed.setting)
    except Exception as error:
        return explain(error, __file__, parsed)
    print("| data set | network | GFLOPs an image | hours per run | GB per run | runs | hours |")
    print("|---|---|---:|---:|---:|---:|---:|")
    print("\n".join(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
