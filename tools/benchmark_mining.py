"""Measures the cost of hard negative class mining relative to a training step.

    python tools/benchmark_mining.py
    python tools/benchmark_mining.py --batch_size=32 --steps=3      # with less memory; overstates the ratios

The cost has all parts, on a full memory: storing a step's embeddings, by the trainer and by the sampler, and
choosing the classes of a batch, minus the time to draw an ordinary batch. It is divided by the time of a
training step of the backbone with the same batch size, although all but the trainer's part runs beside the
step, in the sampler's thread. Measurements take turns, so that other load affects all of them.

Then trains through the pipeline, with and without mining in turn, and prints how long the training thread
waits for a batch. Exits with status 1 if a ratio is above its bound.
"""

import argparse
import itertools
import statistics
import sys
import time

import numpy as np
import tensorflow as tf

import profs_tf as profs
from profs_tf.datasets.image_list import ImageList
from profs_tf.sampling.batch_sampler import BatchSampler
from profs_tf.sampling.hncm.lagged_memory import LaggedMemory, StepEmbeddings
from profs_tf.sampling.hncm.sampler import MinedBatchSampler
from profs_tf.sampling.hncm.selection import ClassMining

# Data set -> training classes, largest share of a step that mining may add.
DATA_SETS = {"CUB-200-2011": (100, 1e-4), "SOP": (11318, 5e-3)}
# Side of the pictures in memory: scaled up, so that thousands of classes fit.
SMALL = 8


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backbone", default="inception_v1", help="network (default: inception_v1)")
    parser.add_argument("--image_size", type=int, default=224, help="side in pixels (default: 224)")
    parser.add_argument("--batch_size", type=int, default=128, help="B of the step (default: 128)")
    parser.add_argument("--embedding_dim", type=int, default=512, help="D (default: 512)")
    parser.add_argument("--classes_per_batch", type=int, default=64, help="C of mining (default: 64)")
    parser.add_argument("--steps", type=int, default=5, help="steps measured of each kind (default: 5)")
    parser.add_argument("--draws", type=int, default=20, help="mined batches a step (default: 20)")
    return parser.parse_args()


def labels_of(num_classes: int) -> np.ndarray:
    """Two images a class."""
    return np.repeat(np.arange(num_classes), 2)


class Mining:
    """Mining without a network, and an ordinary sampler to compare with."""

    def __init__(self, num_classes: int, arguments: argparse.Namespace):
        """Fills a memory with embeddings of all classes."""
        random = np.random.default_rng(0)
        self._count = arguments.classes_per_batch
        shape = [num_classes, arguments.embedding_dim]
        embeddings = random.normal(size=shape).astype(np.float32)
        self._embeddings = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
        self._plain = BatchSampler(labels_of(num_classes), 2 * self._count, 2)
        self._mined = MinedBatchSampler(labels_of(num_classes), 2 * self._count, 2, mining=ClassMining(3))
        self._history = LaggedMemory(num_classes, arguments.embedding_dim, self._mined.lag)
        self._history.memory.update(np.arange(num_classes), self._embeddings)
        self._mined.begin(0, self._history)
        self._batches = iter(self._mined)
        self._step = 0
        for _ in range(self._mined.lag):
            self.mined()

    def mined(self) -> float:
        """Seconds of one mined batch, the parts of sampler and trainer together."""
        begin = time.perf_counter()
        batch = next(self._batches)
        drawn = time.perf_counter()
        # The training step between computes these embeddings in any case.
        classes = batch.labels[: self._count]
        message = StepEmbeddings(batch.step, classes, self._embeddings[classes])
        computed = time.perf_counter()
        self._history.add(message)
        self._mined.feed.put(message)
        return drawn - begin + time.perf_counter() - computed

    def plain(self) -> float:
        """Seconds of one ordinary batch."""
        begin = time.perf_counter()
        self._plain.batch(self._step)
        self._step += 1
        return time.perf_counter() - begin


def build_model(arguments: argparse.Namespace) -> profs.ProfsModel:
    """Returns the compiled model that both kinds of training share."""
    embedder = profs.build_embedder(arguments.backbone, arguments.embedding_dim, seed=0)
    model = profs.ProfsModel(embedder)
    model.compile(profs.head_adam(embedder, 1e-5), profs.losses.MarginLoss())
    return model


class Training:
    """Training through the pipeline, one step at a time."""

    def __init__(self, sampler: BatchSampler, model: profs.ProfsModel, arguments: argparse.Namespace):
        """Starts training."""
        random = np.random.default_rng(0)
        pixels = random.integers(0, 256, (sampler.table.num_images, SMALL, SMALL, 3), np.uint8)
        images = ImageList.from_labels(pixels, labels_of(sampler.num_classes))
        self._link = profs.ProfsCallback(sampler)
        self._link.set_model(model)
        self._link.set_params({"steps": 10**6})
        self._link.on_train_begin()
        side = arguments.image_size
        dataset = profs.train_pipeline(images, sampler, profs.Preprocessing(resize=side, crop=side))
        self._batches = iter(dataset)

    def step(self, train) -> tuple:
        """Takes a step by a compiled function; returns the seconds of waiting and of the step."""
        begin = time.perf_counter()
        batch = next(self._batches)
        waited = time.perf_counter() - begin
        self._link.on_train_batch_begin(0)
        train(batch)["loss"].numpy()
        self._link.on_train_batch_end(0)
        return waited, time.perf_counter() - begin - waited

    def end(self) -> None:
        """Ends training and the sampler's thread."""
        self._link.on_train_end()


def main() -> int:
    """Measures and prints; returns the exit status."""
    arguments = parse_arguments()
    num_classes = max(classes for classes, _ in DATA_SETS.values())
    samplers = {
        "mined": MinedBatchSampler(labels_of(num_classes), arguments.batch_size, 2),
        "plain": BatchSampler(labels_of(num_classes), arguments.batch_size, 2),
    }
    model = build_model(arguments)
    trainings = {name: Training(sampler, model, arguments) for name, sampler in samplers.items()}
    train = tf.function(model.train_step)
    for training in trainings.values():
        training.step(train)
    minings = {name: Mining(classes, arguments) for name, (classes, _) in DATA_SETS.items()}
    waits = {name: [] for name in trainings}
    steps, added = [], {name: [] for name in minings}
    for _ in range(arguments.steps):
        for name, training in trainings.items():
            waited, taken = training.step(train)
            waits[name].append(waited)
            steps.append(taken)
        for name, mining in itertools.chain.from_iterable([minings.items()] * arguments.draws):
            added[name].append(mining.mined() - mining.plain())
    for training in trainings.values():
        training.end()
    return report(arguments, steps, added, waits)


def report(arguments, steps: list, added: dict, waits: dict) -> int:
    """Prints the medians; returns 1 if a ratio is above its bound."""
    step = statistics.median(steps)
    print(
        f"{arguments.backbone}, {arguments.batch_size} images of {arguments.image_size} pixels: {step:.3f} s"
    )
    status = 0
    for name, (num_classes, bound) in DATA_SETS.items():
        median = statistics.median(added[name])
        print(
            f"mining of {arguments.classes_per_batch} of {num_classes:,} classes ({name}) adds "
            f"{1e3 * median:.3f} ms, {100 * median / step:.4f} % of a step  (bound: {100 * bound:g} %)"
        )
        status |= int(median > bound * step)
    for name, waited in waits.items():
        print(
            f"training waits for a {name} batch: median {1e3 * statistics.median(waited):.2f} ms, "
            f"longest {1e3 * max(waited):.2f} ms"
        )
    return status


if __name__ == "__main__":
    sys.exit(main())
