"""What a PROFS step costs beside a plain Keras step, on the same batches (the paper: nothing).

  python tools/benchmark_step.py
  python tools/benchmark_step.py --backbone=conv4 --image_size=48 --batch_size=128 --pairs=40

Prints the median, over pairs of steps measured in turn, of PROFS step / plain step, and the time that penalty
with its gradient, and the swap of anchors, add to a bare gradient-descent update of the same weights. Both
are bound by the memory: what NumPy takes to subtract and to copy as many weights is printed beside. Steps
are compiled functions over batches in memory: neither input pipeline nor Keras loop is part of either.
"""

import argparse
import functools
import statistics

import numpy as np
import tensorflow as tf
from measuring import median_times, seconds

import profs_tf as profs


def parse_arguments():
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backbone", default="inception_v1", help="network (default: inception_v1)")
    parser.add_argument("--image_size", type=int, default=224, help="side in pixels (default: 224)")
    parser.add_argument("--batch_size", type=int, default=32, help="images in a batch (default: 32)")
    parser.add_argument("--embedding_dim", type=int, default=512, help="(default: 512)")
    parser.add_argument("--pairs", type=int, default=15, help="pairs of steps measured (default: 15)")
    return parser.parse_args()


def compiled(model, embedder):
    """Compiles either model alike."""
    model.compile(optimizer=profs.head_adam(embedder, 1e-4), loss=profs.losses.MarginLoss())
    return model


def profs_model(arguments):
    """Returns a PROFS model in the middle of a projection."""
    embedder = profs.build_embedder(arguments.backbone, arguments.embedding_dim, seed=0)
    model = compiled(profs.ProfsModel(embedder, proximal_weight=1e-3), embedder)
    model.proximal.in_use = True
    model.proximal.swap(0)
    return model


def plain_model(arguments):
    """Returns the same embedder as a stock Keras model."""
    embedder = profs.build_embedder(arguments.backbone, arguments.embedding_dim, seed=0)
    return compiled(embedder, embedder)


def batches(arguments, count=4):
    """A few batches as tensors, so that both models take the same ones in turn."""
    random = np.random.default_rng(0)
    side = arguments.image_size
    size = arguments.batch_size
    labels = np.arange(size) % (size // 2)
    mask = (np.arange(size) < size // 2).astype(np.float32)
    return [
        (
            tf.constant(random.integers(0, 256, (size, side, side, 3), np.uint8)),
            tf.constant(labels),
            tf.constant(mask),
        )
        for _ in range(count)
    ]


def compiled_step(model):
    """Returns one training step as a compiled function."""

    @tf.function
    def step(images, labels, mask):
        return model.train_step((images, labels, mask))["loss"]

    return step


def measure_steps(arguments):
    """Returns the seconds of every step, by model."""
    steps = {"profs": compiled_step(profs_model(arguments)), "plain": compiled_step(plain_model(arguments))}
    data = batches(arguments)
    for step in steps.values():
        for batch in data[:2]:
            seconds(functools.partial(step, *batch))
    times = {name: [] for name in steps}
    for pair in range(arguments.pairs):
        batch = data[pair % len(data)]
        # The one that goes first alternates, so that a slow drift of the machine favors neither.
        for name in sorted(steps, reverse=bool(pair % 2)):
            times[name].append(seconds(functools.partial(steps[name], *batch)))
    return times


def measure_parts(arguments, repeats=55):
    """Returns the median seconds that penalty with gradient, and the swap, add to a bare update."""
    model = profs_model(arguments)
    variables = model.embedder.trainable_variables

    def descend(pull):
        for variable, part in zip(variables, pull):
            # In a training step the gradient is a temporary, whose memory the sum takes over.
            gradient = variable * 1e-3
            variable.assign_sub(1e-6 * (gradient if part is None else gradient + part))

    @tf.function
    def update():
        descend([None] * len(variables))

    @tf.function
    def update_with_penalty():
        penalty, pull = model.proximal.penalty_and_gradients(model.embedder.trainable_variables, model.step)
        descend(pull)
        return penalty

    def swap_and_update():
        # The swap itself only shares memory; the copy is made by the update that follows.
        model.proximal.swap(0)
        update()

    calls = {"update": update, "penalty": update_with_penalty, "swap": swap_and_update}
    medians = median_times(calls, repeats, warm_up=5)
    return medians["penalty"] - medians["update"], medians["swap"] - medians["update"]


def measure_memory(arguments, repeats=30):
    """Returns the median seconds of one NumPy subtraction, and of one copy, of as many weights."""
    weights = profs.build_embedder(arguments.backbone, arguments.embedding_dim).count_params()
    one, other, result = (np.ones(weights, np.float32) for _ in range(3))
    calls = (
        functools.partial(np.subtract, one, other, out=result),
        functools.partial(np.copyto, result, one),
    )
    return [statistics.median(seconds(call) for _ in range(repeats)) for call in calls]


def main():
    """Measures and prints."""
    arguments = parse_arguments()
    times = measure_steps(arguments)
    ratios = [ours / plain for ours, plain in zip(times["profs"], times["plain"])]
    print(
        f"{arguments.backbone}, {arguments.batch_size} images of {arguments.image_size} pixels, "
        f"{arguments.pairs} pairs of steps"
    )
    print(
        f"median step: PROFS {1e3 * statistics.median(times['profs']):.1f} ms, "
        f"plain {1e3 * statistics.median(times['plain']):.1f} ms"
    )
    print(f"median ratio PROFS / plain: {statistics.median(ratios):.4f}  (bound: 1.01)")
    penalty, swap = measure_parts(arguments)
    subtraction, copy = measure_memory(arguments)
    for name, ours, bound, operation, scale in (
        ("penalty and its gradient alone", penalty, 5, "subtracts", subtraction),
        ("swap of anchors alone", swap, 3, "copies", copy),
    ):
        print(f"{name}: {1e3 * ours:.2f} ms  (bound: {bound})")
        print(f"  {ours / scale:.2f} times what NumPy {operation} as many weights in, {1e3 * scale:.2f} ms")


if __name__ == "__main__":
    main()
