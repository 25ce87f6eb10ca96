"""Measures the input pipeline: images per second and core, from JPEG files and from the cache.

    python tools/benchmark_input.py
    python tools/benchmark_input.py --images=256 --repeats=9
    python tools/benchmark_input.py --repeats=0 --steps=100

The first part measures CPU time, in turns, so that other load on the machine affects all alike: bare
`tf.io.decode_jpeg` of 500 x 375 images; the same with the exact transform, without and with scaling to
256 x 256; the training pipeline (decode, scale, crop, flip, batch) from files and from the cache, in memory
and on disk. Then it compares our crop and flip of a batch, image by image, with the layers of KerasCV that do
the same. --repeats=0 skips this part.

The second part trains Inception V1 on batches of these pipelines and measures how long the training thread
waits for a batch: the wall time in `next` as a share of that of the whole loop, which reads back the result
of each step, after some warm-up steps. "One decoder" gives the pipeline a single thread. The threads of the
pipeline and of the step share the cores, as they do in training on a CPU, so the cost of decoding shows as a
longer step rather than as waiting. --steps=0 skips this part.
"""

import argparse
import functools
import tempfile
import time
from pathlib import Path

import numpy as np
import tensorflow as tf
from benchmark_step import compiled_step, profs_model
from measuring import median_times
from PIL import Image

import profs_tf as profs
from profs_tf.inputs.cache import cached
from profs_tf.inputs.preprocessing import Preprocessing, prepare_for_evaluation, prepare_for_training
from profs_tf.inputs.tf_decoding import decode

PREPROCESSING = Preprocessing()


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=64, help="number of images (default: 64)")
    parser.add_argument("--batch_size", type=int, default=32, help="B (default: 32)")
    parser.add_argument("--batches", type=int, default=4, help="batches per measurement (default: 4)")
    parser.add_argument("--repeats", type=int, default=7, help="measurements of each pipeline (default: 7)")
    parser.add_argument("--steps", type=int, default=30, help="training steps measured (default: 30)")
    return parser.parse_args()


def write_images(folder: Path, count: int) -> list:
    """Writes JPEG files of 500 x 375 pixels and the size of photographs, 60 KB; returns their paths."""
    paths = []
    for number in range(count):
        random = np.random.default_rng(number)
        coarse = Image.fromarray(random.integers(0, 256, (24, 32, 3), np.uint8))
        smooth = np.asarray(coarse.resize((500, 375), Image.BICUBIC))
        noisy = np.clip(smooth + random.normal(0, 6, smooth.shape), 0, 255).astype(np.uint8)
        paths.append(str(folder / f"{number}.jpg"))
        Image.fromarray(noisy).save(paths[-1], quality=90)
    return paths


def sources(paths: list, batch_size: int, folder: Path) -> dict:
    """Returns infinite datasets of batches by name."""
    files = profs.datasets.ImageList.from_labels(paths, np.arange(len(paths)) // 2)
    lists = {
        "training pipeline, files": files,
        "training pipeline, cached in memory": cached(files, PREPROCESSING, "memory"),
        "training pipeline, cached on disk": cached(files, PREPROCESSING, "disk", str(folder / "cache")),
    }
    found = {
        "bare decode_jpeg": decoding(paths, batch_size, functools.partial(tf.io.decode_jpeg, channels=3)),
        "exact decoding": decoding(paths, batch_size, decode),
        "exact decoding and scaling": decoding(
            paths, batch_size, lambda encoded: prepare_for_evaluation(decode(encoded), PREPROCESSING)
        ),
    }
    for name, images in lists.items():
        sampler = profs.BatchSampler(images.labels, batch_size, 2, seed=0)
        found[name] = profs.train_pipeline(images, sampler, PREPROCESSING)
    return found


def decoding(paths: list, batch_size: int, function) -> tf.data.Dataset:
    """Returns the dataset that applies a function to the bytes of files, in memory, and drops the images."""
    encoded = tf.constant([Path(path).read_bytes() for path in paths])
    return (
        tf.data.Dataset.range(len(paths))
        .repeat()
        .map(lambda index: function(encoded[index])[0, 0], num_parallel_calls=tf.data.AUTOTUNE)
        .batch(batch_size)
    )


def layers(batch_size: int) -> dict:
    """Returns functions that crop and flip one batch of scaled images, ours and KerasCV's."""
    import keras_cv

    images = tf.constant(np.random.default_rng(0).integers(0, 256, (batch_size, 256, 256, 3), np.uint8))
    seeds = tf.stack([tf.range(batch_size), tf.range(batch_size)], axis=1)
    crop = keras_cv.layers.RandomCrop(PREPROCESSING.crop, PREPROCESSING.crop, seed=0)
    flip = keras_cv.layers.RandomFlip("horizontal", seed=0)

    @tf.function
    def ours():
        return tf.map_fn(
            lambda pair: prepare_for_training(pair[0], PREPROCESSING, pair[1]),
            (images, seeds),
            fn_output_signature=tf.uint8,
        )

    @tf.function
    def theirs():
        return flip(crop(tf.cast(images, tf.float32), training=True), training=True)

    return {"ours": ours, "KerasCV": theirs}


def processor_seconds(call) -> float:
    """Returns the CPU time of a call in all threads, until they are idle again.

    Pipelines prefetch: they start and end with full buffers.
    """
    begin = time.process_time()
    call()
    end, before = time.process_time(), begin
    while end - before > 1e-3:
        time.sleep(0.05)
        before, end = end, time.process_time()
    return end - begin


def drawing(dataset: tf.data.Dataset, count: int):
    """Returns a function that draws the next batches of an infinite dataset."""
    options = tf.data.Options()
    # Destroying an iterator under autotune can block for seconds.
    options.autotune.enabled = False
    batches = iter(dataset.with_options(options))

    def draw():
        for _ in range(count):
            next(batches)

    return draw


def waiting(dataset: tf.data.Dataset, step, count: int, warm_up: int = 6) -> tuple:
    """Returns the seconds that training steps waited for batches, and the seconds of the whole loop."""
    batches = iter(dataset)
    waited = begin = 0.0
    for number in range(warm_up + count):
        if number == warm_up:
            waited, begin = 0.0, time.perf_counter()
        before = time.perf_counter()
        batch = next(batches)
        waited += time.perf_counter() - before
        step(*batch).numpy()
    return waited, time.perf_counter() - begin


def with_one_thread(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns the dataset limited to one thread."""
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    return dataset.with_options(options)


def print_throughput(datasets: dict, arguments: argparse.Namespace) -> None:
    """Measures and prints images per second and core, and KerasCV's layers relative to ours."""
    calls = {key: drawing(dataset, arguments.batches) for key, dataset in datasets.items()}
    seconds = median_times(calls, arguments.repeats, processor_seconds)
    count = arguments.batch_size * arguments.batches
    bare = seconds["bare decode_jpeg"]
    for key, value in seconds.items():
        print(f"{key:<38}{count / value:9,.0f} images/s per core   {bare / value:7.2f} x bare decode_jpeg")
    seconds = median_times(layers(arguments.batch_size), arguments.repeats, processor_seconds)
    print(
        f"crop and flip of {arguments.batch_size} images: ours {1e3 * seconds['ours']:.1f} ms, KerasCV "
        f"{1e3 * seconds['KerasCV']:.1f} ms, KerasCV / ours {seconds['KerasCV'] / seconds['ours']:.1f}"
    )


def print_waiting(datasets: dict, arguments: argparse.Namespace) -> None:
    """Measures and prints how long training waits for batches."""
    model = argparse.Namespace(backbone="inception_v1", embedding_dim=512)
    step = compiled_step(profs_model(model))
    print(f"waiting in {arguments.steps} steps of Inception V1 on batches of {arguments.batch_size}:")
    for name, (key, change, bound) in {
        "cached in memory": ("training pipeline, cached in memory", None, 0.5),
        "cached on disk": ("training pipeline, cached on disk", None, 0.5),
        "files, one decoder": ("training pipeline, files", with_one_thread, 2.0),
    }.items():
        dataset = change(datasets[key]) if change else datasets[key]
        waited, total = waiting(dataset, step, arguments.steps)
        print(
            f"{name:<22}{100 * waited / total:8.3f} % ({1e3 * waited / arguments.steps:.2f} of "
            f"{1e3 * total / arguments.steps:.0f} ms per step)  (bound: {bound} %)",
            flush=True,
        )


def main() -> None:
    """Measures and prints."""
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        datasets = sources(write_images(folder, arguments.images), arguments.batch_size, folder)
        if arguments.repeats:
            print_throughput(datasets, arguments)
        if arguments.steps:
            print_waiting(datasets, arguments)


if __name__ == "__main__":
    main()
