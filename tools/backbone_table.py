"""Trains every backbone for a few steps and prints the table of sizes and costs in docs/benchmarks.md.

    python tools/backbone_table.py
    python tools/backbone_table.py --backbones=conv4,inception_v1 --steps=5 --repeats=3

Each network trains from scratch as the train command does, with PROFS and the margin loss, on emoji resized
to 96 x 96 pixels in batches of 8; the exit code is 1 if a loss or a weight is not finite. Weights are the
trainable ones without the embedder's head. FLOPs are counted by TensorFlow's profiler for one image of 224 x
224 pixels through the network in evaluation: a multiplication and an addition are two, and those of batch
normalization are not counted. Images/s compares the same training steps as compiled functions, each measured
in alternation with one of Inception V1; the ratio is the median over all pairs.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from benchmark_step import compiled_step
from measuring import seconds

import profs_tf as profs
from profs_tf import backbones
from profs_tf.config import Config
from profs_tf.models.head import head_variables
from profs_tf.runs import factory

REFERENCE = "inception_v1"
KERAS_CV = "keras_cv:resnet18"
FLOPS_SIDE = 224


class Trained(NamedTuple):
    """A network after its training steps.

    Attributes:
        name: Name of the backbone.
        weights: Number of trainable weights without the head.
        losses: Loss of every step, float [steps].
        finite: Whether all losses, and all weights after the last step, are finite.
        step: One more training step, compiled.
        batches: A few batches for it.
    """

    name: str
    weights: int
    losses: np.ndarray
    finite: bool
    step: object
    batches: list


def parse_arguments(arguments=None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = ",".join([*backbones.names(), KERAS_CV])
    parser.add_argument("--backbones", default=names, help=f"names, with commas between (default: {names})")
    parser.add_argument("--steps", type=int, default=20, help="training steps (default: 20)")
    parser.add_argument("--image_size", type=int, default=96, help="side in pixels (default: 96)")
    parser.add_argument("--batch_size", type=int, default=8, help="images in a batch (default: 8)")
    parser.add_argument("--repeats", type=int, default=15, help="turns measured (default: 15)")
    return parser.parse_args(arguments)


def write_preset(folder: str) -> str:
    """Writes KerasCV's ResNet-18 as a preset without weights, laid out as a download; returns its name."""
    import keras_cv
    from keras_cv.src.utils.preset_utils import save_to_preset

    network = keras_cv.models.ResNetBackbone(
        stackwise_filters=[64, 128, 256, 512],
        stackwise_blocks=[2, 2, 2, 2],
        stackwise_strides=[1, 2, 2, 2],
        block_type="basic_block",
        include_rescaling=True,
    )
    save_to_preset(network, folder, save_weights=False)
    return f"keras_cv:{folder}"


class _Losses(tf.keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.values = []

    def on_train_batch_end(self, batch, logs=None):
        # Keras reports the mean of an epoch; every step is an epoch here.
        self.values.append(logs["loss"])


def train(name: str, backbone: str, arguments: argparse.Namespace) -> Trained:
    """Trains a backbone by the parts of the train command.

    Args:
        name: For the table.
        backbone: As the flag of the train command has it.
        arguments: Sizes and steps.
    """
    config = Config(
        dataset="emoji",
        backbone=backbone,
        batch_size=arguments.batch_size,
        image_resize=arguments.image_size,
    )
    tf.keras.utils.set_random_seed(config.seed)
    images, _ = factory.load_data(config)
    sampler = factory.build_sampler(config, images)
    model = factory.build_model(config, sampler.num_classes)
    pipeline = profs.train_pipeline(images, sampler, factory.build_preprocessing(config, images))
    losses = _Losses()
    model.fit(
        pipeline,
        epochs=arguments.steps,
        steps_per_epoch=1,
        callbacks=[profs.ProfsCallback(sampler), losses],
        verbose=0,
    )
    head = head_variables(model.embedder)
    return Trained(
        name,
        _count(model.embedder.trainable_variables) - _count(head),
        np.array(losses.values),
        all(np.isfinite(value).all() for value in [losses.values, *model.get_weights()]),
        compiled_step(model),
        list(pipeline.take(4)),
    )


def _count(variables: list) -> int:
    return sum(int(np.prod(variable.shape)) for variable in variables)


def flops(backbone: str, side: int = FLOPS_SIDE) -> int:
    """Returns the floating-point operations of one image through a backbone in evaluation."""
    network = backbones.get(backbone)((side, side, 3))
    forward = tf.function(lambda images: network(images, training=False))
    graph = forward.get_concrete_function(tf.TensorSpec([1, side, side, 3])).graph
    options = tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()
    options["output"] = "none"
    return tf.compat.v1.profiler.profile(graph, cmd="op", options=options).total_float_ops


def speed_ratio(trained: Trained, reference: Trained, repeats: int) -> float:
    """Returns the ratio of images/s of two networks: the median over steps measured in alternation."""
    ratios = []
    for turn in range(repeats + 2):
        times = {}
        # Which goes first alternates, so that a slow drift of the machine favors neither.
        for which in (trained, reference) if turn % 2 else (reference, trained):
            batch = which.batches[turn % len(which.batches)]
            times[which.name] = seconds(lambda which=which, batch=batch: which.step(*batch))
        if turn >= 2:
            ratios.append(times[reference.name] / times[trained.name])
    return statistics.median(ratios)


def row(trained: Trained, operations: int, ratio: float) -> str:
    """Returns a row of the table."""
    return (
        f"| `{trained.name}` | {trained.weights:,} | {operations / 1e9:.2f} | {ratio:.2f} | "
        f"{trained.losses[0]:.3f} | {trained.losses[-1]:.3f} |"
    )


def main() -> None:
    """Trains, measures and prints."""
    arguments = parse_arguments()
    names = arguments.backbones.split(",")
    broken = []
    with tempfile.TemporaryDirectory() as folder:
        paths = {
            name: write_preset(str(Path(folder) / "preset")) if name == KERAS_CV else name for name in names
        }
        reference = train(REFERENCE, REFERENCE, arguments)
        print("| backbone | weights | GFLOPs | images/s by `inception_v1`'s | first loss | last loss |")
        print("|---|---|---|---|---|---|")
        for name, backbone in paths.items():
            trained = reference if name == REFERENCE else train(name, backbone, arguments)
            ratio = 1.0 if trained is reference else speed_ratio(trained, reference, arguments.repeats)
            print(row(trained, flops(backbone), ratio), flush=True)
            if not trained.finite:
                broken.append(name)
    print(
        f"\n{arguments.steps} steps each: " + (f"not finite: {', '.join(broken)}" if broken else "all finite")
    )
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
