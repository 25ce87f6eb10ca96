"""Measures what each loss costs, forward and backward, beside a step of the network that it trains.

    python tools/benchmark_losses.py
    python tools/benchmark_losses.py --num_classes=11318 --repeats=5     # centers and proxies of SOP

Compares each loss on B=128 embeddings of D=512 dimensions, two images per class, with the forward and
backward pass of the backbone on 32 images, a quarter of a batch: the ratios are upper bounds. A cross-batch
memory of 8,192 embeddings, and CCP with 8 prototypes of a class, are measured with 32 images on both sides.
Each is a tf.function. Measurements alternate, so that other load on the machine affects all of them. Prints
median times and ratios, and exits with status 1 if a ratio exceeds --target.
"""

import argparse
import statistics
import sys
import time

import numpy as np
import tensorflow as tf

import profs_tf as profs


def parse_arguments() -> argparse.Namespace:
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
    return parser.parse_args()


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
    return lambda: step(embeddings, is_query)


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

    return lambda: step(images)


def seconds(step, times: int) -> float:
    """Returns the mean seconds of a step. Reading the value waits for the device."""
    begin = time.perf_counter()
    for _ in range(times):
        value, _ = step()
    value.numpy()
    return (time.perf_counter() - begin) / times


def measure(steps: dict, repeats: int) -> dict:
    """Returns the times of each step, measured alternately after a first run that traces it."""
    for step in steps.values():
        seconds(step, 1)
    times = {name: [] for name in steps}
    for _ in range(repeats):
        for name, step in steps.items():
            times[name].append(seconds(step, 1 if name == "backbone" else 5))
    return times


def main() -> None:
    """Measures and prints."""
    arguments = parse_arguments()
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
    times = measure(steps, arguments.repeats)
    backbone = statistics.median(times.pop("backbone"))
    print(f"{arguments.backbone}, {arguments.images} images: {1e3 * backbone:.0f} ms")
    ratios = {name: statistics.median(values) / backbone for name, values in times.items()}
    for name, ratio in ratios.items():
        print(f"{name:34} {1e3 * ratio * backbone:8.2f} ms  {ratio:7.2%}")
    over = [name for name, ratio in ratios.items() if ratio > arguments.target]
    if over:
        sys.exit(f"Above {arguments.target:.1%}: {', '.join(over)}.")


if __name__ == "__main__":
    main()
