"""Re-estimates batch normalization of trained runs on ordinary batches; evaluates before and after.

    python tools/reestimate_batch_norm.py runs/grid/emoji-contrastive_profs_hncm-seed*

Batches of mined classes resemble each other more than the pictures that are evaluated, and the moving
statistics of batch normalization are theirs. This replaces them by means over --batches batches of the run's
size, whose classes are drawn uniformly and whose images are augmented as in training, with the weights of the
run's best epoch. Prints Recall@1 of both in percent. The runs' folders stay as they are. Runs that trained
with frozen statistics (--freeze_batch_norm, --train_layers=head) are refused: theirs are not of batches.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

import tensorflow as tf
from command_line import run_steps

from profs_tf.config import Config
from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.pipeline import train_pipeline
from profs_tf.metrics.retrieval import recall_at_k
from profs_tf.metrics.scores import query_and_gallery
from profs_tf.models.inference import embed
from profs_tf.runs.directory import RunFolder
from profs_tf.runs.factory import (
    build_best_embedder,
    build_preprocessing,
    hold_out_for_projections,
    load_data,
)
from profs_tf.runs.fine_tuning import frozen_batch_norm
from profs_tf.sampling.batch_sampler import BatchSampler
from profs_tf.utils.checks import check_count


def parse_arguments(arguments: list | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folders of finished runs")
    parser.add_argument("--batches", type=int, default=100, help="batches of an estimate (default: 100)")
    return parser.parse_args(arguments)


def check_arguments(arguments: argparse.Namespace) -> None:
    """Raises ValueError unless every folder holds a run that can be evaluated and `batches` is a count."""
    check_count("batches", arguments.batches, "Leave it out for 100.")
    for run in arguments.runs:
        folder = RunFolder(run)
        missing = [path for path in (folder.config, folder.metrics) if not path.is_file()]
        if missing:
            raise ValueError(
                f"RUN must be the folder of a finished run, got {run} without {missing[0].name}. "
                "Give the --output_dir of a train command that has ended."
            )
    for run in arguments.runs:
        check_statistics_are_trained(run, RunFolder(run).read_config())


def check_statistics_are_trained(run: str, config: Config) -> None:
    """Raises ValueError if the run's backbone normalizes by the moving statistics in training, too."""
    cures = {}
    frozen = frozen_batch_norm(config)
    if frozen != "none":
        cures[f"--freeze_batch_norm={frozen}"] = "--freeze_batch_norm=none"
    if config.train_layers == "head":
        cures["--train_layers=head"] = "--train_layers=all"
    if cures:
        raise ValueError(
            "RUN must have updated the statistics of batch normalization in training, got "
            f"{run} with {' '.join(cures)}. Train one with {' '.join(cures.values())}."
        )


def batch_norm_layers(model: tf.keras.Model) -> list:
    """Returns the layers of batch normalization that training changes, also within inner models."""
    layers = [layer for layer in model.submodules if isinstance(layer, tf.keras.layers.BatchNormalization)]
    # Frozen layers, such as those below the ones that --train_layers=last:N trains, run in inference mode.
    return [layer for layer in layers if layer.trainable]


def reestimate(embedder: tf.keras.Model, batches) -> None:
    """Sets the moving statistics to means over the batches of images.

    Raises:
        ValueError: If the network has no batch normalization that training changes.
    """
    layers = batch_norm_layers(embedder)
    if not layers:
        raise ValueError(
            "RUN must have batch normalization that training changes, got one whose network has none."
        )
    for number, images in enumerate(batches):
        # The mean over all batches so far, where Keras would forget the first ones.
        for layer in layers:
            layer.momentum = number / (number + 1)
        embedder(images, training=True)


def recalls(path: str, num_batches: int) -> tuple:
    """Returns Recall@1 of a run's best epoch before and after, fractions."""
    folder = RunFolder(path)
    config = folder.read_config()
    known, test = load_data(config)
    train, _ = hold_out_for_projections(config, known)
    embedder = build_best_embedder(config, folder.best_weights)
    preprocessing = build_preprocessing(config, train)
    before = recall(embedder, test, preprocessing)
    # The ordinary batches of the baseline, whatever the run's method.
    sampler = BatchSampler(
        train.labels,
        config.batch_size,
        config.images_per_class,
        config.seed,
        steps_per_projection=1,
        queries="all",
        class_draw=config.class_draw,
    )
    pipeline = train_pipeline(train, sampler, preprocessing=preprocessing).take(num_batches)
    reestimate(embedder, (inputs for inputs, *_ in pipeline))
    return before, recall(embedder, test, preprocessing)


def recall(embedder: tf.keras.Model, test: ImageList, preprocessing) -> float:
    """Returns Recall@1 of the test images, as a run does: of the queries in their gallery if these differ."""
    embeddings = embed(embedder, test, preprocessing=preprocessing)
    return recall_at_k(**query_and_gallery(embeddings, test.labels, test.is_query), ks=1)[1]


def evaluate(arguments: argparse.Namespace) -> None:
    """Evaluates all runs and prints."""
    print(f"{'run':60} before   after  change")
    changes = []
    for run in arguments.runs:
        before, after = recalls(run, arguments.batches)
        changes.append(100 * (after - before))
        print(f"{Path(run).name:60} {100 * before:6.2f}  {100 * after:6.2f}  {changes[-1]:+6.2f}", flush=True)
    print(f"{'mean':60} {'':6}  {'':6}  {statistics.mean(changes):+6.2f}")


def main(arguments: list | None = None) -> int:
    """Evaluates all runs; returns the exit code."""
    return run_steps(parse_arguments(arguments), __file__, check_arguments, evaluate)


if __name__ == "__main__":
    sys.exit(main())
