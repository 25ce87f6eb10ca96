"""Compares the embed command's rate with the bare network's on the same files, in turn in one process.

    python tools/benchmark_embed.py
    python tools/benchmark_embed.py --backbone=conv4 --crop=48 --resize=48 --images=20000 --rounds=1

Per round: the signature `encoded_images` on the files' bytes, which are in memory already, batch after batch;
the network alone on pixels that are decoded, scaled and cropped already; and what the command does after
loading the model: it reads, hashes, decodes, scales, embeds and writes shards. Reported are images per second
of wall time, medians over the rounds, and the medians of each round's ratios, in wall time and in processor
time, which other load of the machine affects less. A first round warms up and is not counted.
"""

from __future__ import annotations

import argparse
import functools
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf
from measuring import in_turn, wall_and_cpu_seconds
from PIL import Image

import profs_tf as profs
from profs_tf.inputs.preprocessing import prepare_for_evaluation
from profs_tf.inputs.tf_decoding import decode
from profs_tf.serving.loaded import SavedEmbedder
from profs_tf.serving.saved_model import ENCODED_SIGNATURE, load_signature
from profs_tf.shards.embedding import embed_shards
from profs_tf.shards.folder import ShardFolder
from profs_tf.shards.job import Job, ShardOptions
from profs_tf.shards.pictures import pictures_in


def main() -> None:
    """Measures and prints."""
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as folder:
        report(Path(folder), arguments)


def parse_arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backbone", default="inception_v1", help="network (default: inception_v1)")
    parser.add_argument(
        "--images", type=int, default=384, help="JPEG files of 500 x 375 pixels (default: 384)"
    )
    parser.add_argument("--size", type=int, nargs=2, default=(500, 375), help="width and height of the files")
    parser.add_argument("--resize", type=int, default=256, help="side after scaling (default: 256)")
    parser.add_argument("--crop", type=int, default=224, help="side of the network's input (default: 224)")
    parser.add_argument("--batch_size", type=int, default=64, help="images embedded at once (default: 64)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds that count (default: 5)")
    return parser.parse_args(words)


def report(folder: Path, arguments: argparse.Namespace) -> None:
    """Prints the rates of all rounds' medians, and the ratios."""
    write_pictures(folder / "pictures", arguments.images, tuple(arguments.size))
    network = profs.build_embedder(arguments.backbone, 512, seed=0)
    preprocessing = profs.Preprocessing(arguments.resize, arguments.crop)
    profs.save_embedder(network, preprocessing, folder / "embedder")
    parts = {
        "signature on the bytes": on_bytes(folder, arguments.batch_size),
        "network on pixels": on_pixels(folder, network, preprocessing, arguments.batch_size),
        "embed": on_files(folder, arguments.batch_size),
    }
    measurements = {name: functools.partial(wall_and_cpu_seconds, run) for name, run in parts.items()}
    times = in_turn(measurements, arguments.rounds)
    # Images per second of wall time and of CPU time.
    rates = {name: arguments.images / np.array(found) for name, found in times.items()}
    print(
        f"{arguments.images:,} images, {arguments.backbone} at {arguments.crop} pixels, {os.cpu_count()} "
        "cores; embed relative to each in wall time and CPU time:"
    )
    for name, found in rates.items():
        wall, processor = np.median(rates["embed"] / found, axis=0)
        rate = np.median(found, axis=0)[0]
        print(f"  {name:<24}{rate:>8,.1f} images/s {wall:>7.3f} {processor:>7.3f}")


def write_pictures(folder: Path, num_images: int, size: tuple[int, int]) -> None:
    """Writes JPEG files of smooth random pictures, each different."""
    random = np.random.default_rng(0)
    for number in range(num_images):
        path = folder / f"{number // 1000:03}" / f"{number:06}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        coarse = Image.fromarray(random.integers(0, 256, (24, 32, 3), np.uint8))
        coarse.resize(size, Image.Resampling.BICUBIC).save(path, quality=90)


def on_bytes(folder: Path, batch_size: int) -> Callable[[], None]:
    """Returns what embeds the files' bytes, which it has read, by the signature alone."""
    embed = load_signature(folder / "embedder", ENCODED_SIGNATURE)
    contents = [path.read_bytes() for path in sorted(folder.glob("pictures/*/*.jpg"))]

    def run() -> None:
        for start in range(0, len(contents), batch_size):
            embed(images=tf.constant(contents[start : start + batch_size]))["embeddings"].numpy()

    return run


def on_pixels(
    folder: Path, network: tf.keras.Model, preprocessing: profs.Preprocessing, batch_size: int
) -> Callable[[], None]:
    """Returns what embeds prepared pixels of one batch as often as there are batches."""
    paths = sorted(folder.glob("pictures/*/*.jpg"))
    prepared = tf.stack(
        [prepare_for_evaluation(decode(path.read_bytes()), preprocessing) for path in paths[:batch_size]]
    )
    embed = tf.function(lambda images: network(images, training=False))

    def run() -> None:
        for start in range(0, len(paths), batch_size):
            embed(prepared[: len(paths) - start]).numpy()

    return run


def on_files(folder: Path, batch_size: int) -> Callable[[], None]:
    """Returns what embeds the files into shards, as the command does."""
    model, source = SavedEmbedder(folder / "embedder"), pictures_in(folder / "pictures")
    options = ShardOptions(batch_size=batch_size)
    job = Job(source, model.path, model.sha256, str(folder / "out"), options)

    def run() -> None:
        with ShardFolder(job.output).writing(job.identity(), overwrite=True):
            ShardFolder(job.output).begin()
            embed_shards(job, model, range(job.num_shards), lambda count: None)

    return run


if __name__ == "__main__":
    main()
