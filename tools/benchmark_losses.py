"""Measures what each loss costs, forward and backward, beside a step of the network that it trains.

    python tools/benchmark_losses.py
    python tools/benchmark_losses.py --num_classes=11318 --repeats=5     # centers and proxies of SOP
    python tools/benchmark_losses.py --results=experiments/results/loss_costs.csv     # adds lines to a CSV

Compares each loss on B=128 embeddings of D=512 dimensions, two images per class, with the forward and
backward pass of the backbone on 32 images, a quarter of a batch: the ratios are upper bounds. A cross-batch
memory of 8,192 embeddings, and CCP with 8 prototypes of a class, are measured with 32 images on both sides.
Each is a tf.function. Measurements alternate, so that other load on the machine affects all of them. Prints
median times, ratios and the memory that a loss keeps (weights with Adam's two moments, stored embeddings),
and exits with status 1 if a ratio exceeds --target.
"""

from __future__ import annotations

import argparse
import csv
import functools
import io
import statistics
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
from command_line import explain
from measuring import in_turn, seconds

import profs_tf as profs
from profs_tf import backbones
from profs_tf.utils.checks import check_count, check_finite_at_least
from profs_tf.utils.files import check_file_output, expanded, write_atomically

COLUMNS = (
    "loss",
    "queries",
    "embeddings",
    "num_classes",
    "backbone",
    "images",
    "milliseconds",
    "backbone_milliseconds",
    "percent_of_backbone",
    "step_to_contrastive",
    "megabytes",
)


def parse_arguments(arguments: list | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch_size", type=int, default=128, help="B of the losses (default: 128)")
    parser.add_argument("--embedding_dim", type=int, default=512, help="D (default: 512)")
    parser.add_argument("--num_classes", type=int, default=100, help="with centers or proxies (default: 100)")
    parser.add_argument("--memory", type=int, default=8192, help="embeddings it holds (default: 8192)")
    parser.add_argument("--backbone", default="inception_v1", help="(default: inception_v1)")
    parser.add_argument("--images", type=int, default=32, help="batch of the backbone (default: 32)")
    parser.add_argument("--image_size", type=int, default=224, help="side in pixels (default: 224)")
    parser.add_argument("--repeats", type=int, default=9, help="measurements of each (default: 9)")
    parser.add_argument("--target", type=float, default=0.05, help="largest good ratio (default: 0.05)")
    parser.add_argument("--results", type=expanded, help="CSV file to which the lines are added")
    return parser.parse_args(arguments)


def check_arguments(arguments: argparse.Namespace) -> None:
    """Raises an error unless everything can be measured, and the lines can be added to the CSV."""
    for name in ("batch_size", "embedding_dim", "memory", "images", "image_size", "repeats"):
        check_count(name, getattr(arguments, name), "Leave it out for the default.")
    check_count("num_classes", arguments.num_classes, "Leave it out for 100.", minimum=2)
    check_finite_at_least("target", arguments.target, 0.0)
    smallest = backbones.get(arguments.backbone).min_size
    check_count("image_size", arguments.image_size, f"{arguments.backbone} needs it.", minimum=smallest)
    if arguments.results is not None:
        check_file_output("results", arguments.results)
        read_lines(arguments.results)


def every_loss(num_classes: int, embedding_dim: int) -> dict:
    """Returns every loss with every mining, by its printed name."""
    minings = {
        "contrastive": ["hard"],
        "triplet": ["hard", "semi_hard"],
        "margin": ["hard", "distance_weighted"],
    }
    sizes = {"num_classes": num_classes, "embedding_dim": embedding_dim}
    found = {}
    for name in profs.losses.names():
        options = {option: sizes[option] for option in profs.losses.options(name) if option in sizes}
        for mining in minings.get(name, [None]):
            chosen = {**options, "mining": mining} if mining else options
            found[f"{name} {mining or ''}".strip()] = profs.losses.get(name, **chosen)
    return found


def full_memory(size: int, num_classes: int, embedding_dim: int):
    """Returns the contrastive loss with a memory that is full and in use."""
    random = np.random.default_rng(1)
    loss = profs.losses.CrossBatchMemory(profs.losses.ContrastiveLoss(), embedding_dim, size, start_step=0)
    loss.stored_embeddings.assign(unit_rows(random, size, embedding_dim))
    loss.stored_labels.assign(random.integers(0, num_classes, size))
    loss.num_stored.assign(size)
    return loss


def unit_rows(random: np.random.Generator, size: int, embedding_dim: int) -> np.ndarray:
    """Returns random embeddings of unit length, [size, embedding_dim]."""
    embeddings = random.normal(size=[size, embedding_dim])
    return embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)


def loss_step(loss, size: int, arguments, masked: bool):
    """Returns a function that computes the loss of a batch and its gradients once."""
    labels = tf.constant(np.arange(size) // 2 % arguments.num_classes)
    embeddings = unit_rows(np.random.default_rng(0), size, arguments.embedding_dim)
    is_query = tf.constant(np.arange(size) % 2 == 0) if masked else None

    @tf.function(autograph=False)
    def step(embeddings, is_query):
        with tf.GradientTape() as tape:
            tape.watch(embeddings)
            value = loss.training_step(labels, embeddings, is_query)
        return value, tape.gradient(value, [embeddings, *loss.trainable_variables])

    embeddings = tf.constant(embeddings, tf.float32)
    return lambda: step(embeddings, is_query)[0]


def backbone_step(arguments):
    """Returns a function that runs the network forward and backward once."""
    embedder = profs.build_embedder(arguments.backbone, embedding_dim=arguments.embedding_dim)
    shape = [arguments.images, arguments.image_size, arguments.image_size, 3]
    images = tf.constant(np.random.default_rng(0).uniform(0, 255, shape), tf.float32)

    @tf.function(autograph=False)
    def step(images):
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(embedder(images, training=True))
        return value, tape.gradient(value, embedder.trainable_variables)

    return lambda: step(images)[0]


def kept_megabytes(loss) -> float:
    """Returns what a loss keeps between steps: variables, and Adam's two moments of those that train."""
    sizes = [np.prod(variable.shape) * variable.dtype.size for variable in loss.variables]
    trained = [np.prod(variable.shape) * variable.dtype.size for variable in loss.trainable_variables]
    return (sum(sizes) + 2 * sum(trained)) / 1e6


def read_lines(path: Path) -> str:
    """Returns the text of a CSV file with the columns of this tool; "" if it is empty or does not exist.

    Raises:
        ValueError: If it has other columns.
    """
    try:
        text = path.read_text("utf-8") if path.exists() else ""
    except UnicodeDecodeError as error:
        raise ValueError(
            f"`results` must be a CSV file, got {path}: {error}. Choose another file."
        ) from error
    header = text.partition("\n")[0]
    if text and header != ",".join(COLUMNS):
        raise ValueError(
            f"`results` must have the columns {','.join(COLUMNS)}, got {path} with {header}. "
            "Choose another file."
        )
    return text


def add_lines(path: Path, lines: list) -> None:
    """Adds measured lines, dicts with the keys `COLUMNS`, to a CSV file."""
    before = read_lines(path)
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    if not before:
        writer.writeheader()
    writer.writerows(lines)
    # The last line of a file that was written by hand may not end.
    ended = before if before.endswith("\n") or not before else before + "\n"
    write_atomically(path, ended + text.getvalue())


def lines_of(rows: list, times: dict, arguments) -> list:
    """Returns the medians of each loss as dicts of texts, and its ratios to the backbone's step."""
    backbone = statistics.median(times["backbone"])
    medians = {name: statistics.median(found) for name, found in times.items()}
    contrastive = medians["contrastive hard"]
    return [
        {
            "loss": name,
            "queries": queries,
            "embeddings": str(size),
            "num_classes": str(arguments.num_classes),
            "backbone": arguments.backbone,
            "images": str(arguments.images),
            "milliseconds": f"{1e3 * medians[key]:.3f}",
            "backbone_milliseconds": f"{1e3 * backbone:.1f}",
            "percent_of_backbone": f"{100 * medians[key] / backbone:.3f}",
            "step_to_contrastive": f"{(backbone + medians[key]) / (backbone + contrastive):.4f}",
            "megabytes": f"{kept_megabytes(loss):.4f}",
        }
        for name, loss, size in rows
        for key, queries in ((name, "all"), (f"{name}, PROFS", "representatives"))
    ]


def measure_all(arguments: argparse.Namespace) -> list:
    """Measures and prints; returns the names of what costs more than the target."""
    # Each loss has two functions, each traced once; TensorFlow warns of retracing nevertheless.
    tf.get_logger().setLevel("ERROR")
    sizes = arguments.num_classes, arguments.embedding_dim
    rows = [(name, loss, arguments.batch_size) for name, loss in every_loss(*sizes).items()]
    rows.append(("contrastive hard, memory", full_memory(arguments.memory, *sizes), arguments.images))
    pairs = profs.losses.ContrastiveLoss()
    rows.append(
        ("contrastive hard, CCP", profs.losses.ChanceConstrainedLoss(pairs, *sizes), arguments.images)
    )
    steps = {"backbone": backbone_step(arguments)}
    for name, loss, size in rows:
        steps[name] = loss_step(loss, size, arguments, masked=False)
        steps[name + ", PROFS"] = loss_step(loss, size, arguments, masked=True)
    # The first round traces the functions. A loss is too quick to be measured once.
    measurements = {
        name: functools.partial(seconds, step, 1 if name == "backbone" else 5) for name, step in steps.items()
    }
    lines = lines_of(rows, in_turn(measurements, arguments.repeats), arguments)
    print(f"{arguments.backbone}, {arguments.images} images: {lines[0]['backbone_milliseconds']} ms")
    print(f"{'':34} {'':11}  of that  step to contrastive's  kept")
    over = []
    for line in lines:
        name = line["loss"] + (", PROFS" if line["queries"] == "representatives" else "")
        percent = float(line["percent_of_backbone"])
        print(
            f"{name:34} {float(line['milliseconds']):8.2f} ms  {percent:6.2f}%  "
            f"{line['step_to_contrastive']:>21}  {float(line['megabytes']):.1f} MB"
        )
        if percent > 100 * arguments.target:
            over.append(name)
    if arguments.results:
        add_lines(arguments.results, lines)
    return over


def main(arguments: list | None = None) -> int:
    """Measures all losses; returns the exit code."""
    parsed = parse_arguments(arguments)
    try:
        check_arguments(parsed)
        over = measure_all(parsed)
    except Exception as error:
        return explain(error, __file__, parsed)
    if over:
        print(f"Above {parsed.target:.1%}: {', '.join(over)}.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
