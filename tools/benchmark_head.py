"""How many steps of head-only training take as long as one step of the whole network, on the same classes.

  python tools/benchmark_head.py --backbone=efficientnet_lite0 --pretrained=imagenet --image_size=128
  python tools/benchmark_head.py --backbone=conv4 --image_size=48 --batch_size=32 --images=256

Both train through `fit` with PROFS and the margin loss, input pipeline and callbacks included; the whole
network on random images in memory, the head on random features. Rounds of both are measured in turn. Also
prints the peak memory of the process after the head's first round, and at the end.
"""

import argparse
import statistics
import time

import numpy as np
import tensorflow as tf
from measuring import status_kilobytes

import profs_tf as profs
from profs_tf.inputs.features import FeatureList, feature_pipeline
from profs_tf.models.head import split_at_head

CLASSES = 100


def parse_arguments(words=None):
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backbone", default="efficientnet_lite0", help="network")
    parser.add_argument("--pretrained", help="weights of the network (default: random)")
    parser.add_argument("--image_size", type=int, default=128, help="side in pixels (default: 128)")
    parser.add_argument("--images", type=int, default=2000, help="images that train (default: 2000)")
    parser.add_argument("--batch_size", type=int, default=128, help="images in a batch (default: 128)")
    parser.add_argument("--embedding_dim", type=int, default=512, help="(default: 512)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds measured in turn (default: 3)")
    parser.add_argument(
        "--head_steps", type=int, default=200, help="steps of the head in each (default: 200)"
    )
    return parser.parse_args(words)


class Trainer:
    """A model with its batches; measures seconds per step."""

    def __init__(self, embedder, batches, sampler):
        """Compiles a model for the embedder or its head."""
        self._model = profs.ProfsModel(embedder, proximal_weight=1e-3)
        self._model.compile(optimizer=profs.head_adam(embedder, 1e-5), loss=profs.losses.MarginLoss())
        self._batches, self._callback = batches, profs.ProfsCallback(sampler)

    def seconds_per_step(self, steps):
        """Trains; returns the mean of the steps after the first, which starts the pipeline."""
        clock = _Clock()
        self._model.fit(
            self._batches, steps_per_epoch=steps + 1, callbacks=[self._callback, clock], verbose=0
        )
        return (clock.ends[-1] - clock.ends[0]) / steps


class _Clock(tf.keras.callbacks.Callback):
    """Remembers when each step ended."""

    def __init__(self):
        super().__init__()
        self.ends = []

    def on_train_batch_end(self, batch, logs=None):
        """Looks at the clock."""
        self.ends.append(time.perf_counter())


def trainers(arguments):
    """Returns the trainers of the head and of the whole network."""
    random = np.random.default_rng(0)
    side = arguments.image_size
    labels = np.arange(arguments.images) % CLASSES
    pixels = random.integers(0, 256, (arguments.images, side, side, 3), np.uint8)
    images = profs.datasets.ImageList.from_labels(pixels, labels)
    embedder = profs.build_embedder(
        arguments.backbone,
        arguments.embedding_dim,
        pretrained=arguments.pretrained,
        freeze_batch_norm="statistics",
        seed=0,
    )
    parts = split_at_head(embedder)
    features = random.normal(size=(2, arguments.images, parts.features.output_shape[-1]))
    found = FeatureList(features.astype(np.float32), images.labels, images.class_names)
    one, other = (profs.BatchSampler(images.labels, arguments.batch_size, seed=0) for _ in range(2))
    return (
        Trainer(parts.head, feature_pipeline(found, one), one),
        Trainer(embedder, profs.train_pipeline(images, other), other),
    )


def main(words=None):
    """Measures and prints."""
    arguments = parse_arguments(words)
    head, whole = trainers(arguments)
    head.seconds_per_step(10)
    memory = status_kilobytes("VmHWM")
    whole.seconds_per_step(1)
    times = [
        (head.seconds_per_step(arguments.head_steps), whole.seconds_per_step(2))
        for _ in range(arguments.rounds)
    ]
    for name, values in zip(("head", "whole network"), zip(*times)):
        print(f"{name}: {1e3 * statistics.median(values):.2f} ms a step")
    ratio = statistics.median(slow / fast for fast, slow in times)
    print(f"steps of the head in the time of one of the whole network: {ratio:.0f}  (bound: 50)")
    both = status_kilobytes("VmHWM")
    print(f"peak memory: {memory / 2**10:.0f} MB with the head, {both / 2**10:.0f} MB with the whole network")


if __name__ == "__main__":
    main()
