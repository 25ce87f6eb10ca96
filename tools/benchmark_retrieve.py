"""Measures building and searching an index of many pictures: rate, recovery from a kill, latency, memory.

    python tools/benchmark_retrieve.py                   # 100,000 pictures of 16 x 16 pixels
    python tools/benchmark_retrieve.py --images=10000    # fewer, in a minute
    python tools/benchmark_retrieve.py --images=3000 --backbone=inception_v1 --image_size=224

An untrained network embeds random PNG files, by default a network so small that reading the files takes as
long as embedding them. "Embedder alone" calls the signature `encoded_images` on batches of files in memory,
one after another; the index also lists, reads and checks the files, and writes. One build is killed half way
and continued; another one is built in a single run, and both must have the same bits. Then indexed images are
searched for one by one, exactly. Build and embedder are compared in CPU time, which other load of the
machine affects less than wall time. Memory is the peak of a separate process, including TensorFlow.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from measuring import print_line, run_part, status_kilobytes, wall_and_cpu_seconds
from PIL import Image

import profs_tf as profs

SIZE = 16
BATCH = 128
QUERIES = 10


def main() -> None:
    """Measures all parts, each in a separate process."""
    arguments = parse_arguments()
    if arguments.part:
        part = {"embedder": embedder_alone, "index": build_whole, "search": search}[arguments.part]
        figures = part(Path(arguments.work_dir))
        print(json.dumps({**figures, "megabytes": status_kilobytes("VmHWM") / 2**10}))
        return
    with tempfile.TemporaryDirectory(dir=arguments.work_dir) as folder:
        report(Path(folder), arguments)


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=100_000, help="pictures (default: 100000)")
    parser.add_argument("--d", type=int, default=512, help="dimensions (default: 512)")
    parser.add_argument("--backbone", default="conv4", help="network (default: conv4)")
    parser.add_argument(
        "--image_size", type=int, default=SIZE, help=f"size to which pictures are scaled ({SIZE})"
    )
    parser.add_argument("--work_dir", help="folder for 1 GB of temporary files (default: the system's)")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    return parser.parse_args()


def report(folder: Path, arguments: argparse.Namespace) -> None:
    """Runs all parts and prints their figures."""
    num_images, dimension, size = arguments.images, arguments.d, arguments.image_size
    write_pictures(folder / "pictures", num_images)
    write_pictures(folder / "one", 1)
    embedder = profs.build_embedder(arguments.backbone, dimension, seed=0)
    profs.save_embedder(embedder, profs.Preprocessing(size, size), folder / "embedder")
    print(
        f"{num_images:,} pictures, {arguments.backbone} at {size} pixels, {dimension} dimensions, "
        f"{os.cpu_count()} cores"
    )
    place = f"--work_dir={folder}"
    alone, chunks = run_part(__file__, "embedder", place), kill_half_way(folder, num_images)
    subprocess.run(index_command(folder, "killed"), check=True, stdout=subprocess.DEVNULL)
    whole, found = run_part(__file__, "index", place), run_part(__file__, "search", place)
    rate = num_images / whole["seconds"]
    print_line("embedder alone", f"{alone['rate']:,.0f} images/s, {alone['megabytes']:,.0f} MB at the peak")
    print_line("index", f"{rate:,.0f} images/s, {whole['megabytes']:,.0f} MB at the peak")
    print_line("loading the model, not counted", f"{whole['loading']:.1f} s")
    ratio = alone["cpu_rate"] * whole["cpu_seconds"] / num_images
    print_line("CPU time over the embedder's", f"{ratio:.2f}")
    print_line(f"killed after {chunks} chunks, continued", "equal" if is_same(folder) else "NOT EQUAL")
    print_line("opening the index, first query", f"{found['first']:.2f} s")
    print_line("each further query, median", f"{found['further']:.3f} s (at most 1)")
    print_line(
        "search", f"{found['megabytes']:,.0f} MB at the peak, {found['embeddings']:,.0f} of embeddings"
    )


def write_pictures(folder: Path, num_images: int) -> None:
    """Writes random pictures, a thousand in each sub-folder."""
    random = np.random.default_rng(0)
    for start in range(0, num_images, 1000):
        (folder / f"{start // 1000:04}").mkdir(parents=True)
        for number in range(start, min(start + 1000, num_images)):
            picture = Image.fromarray(random.integers(0, 256, (SIZE, SIZE, 3), np.uint8))
            picture.save(folder / f"{start // 1000:04}" / f"{number:06}.png", compress_level=1)


def index_command(folder: Path, name: str) -> list:
    """Returns the command that builds an index, or continues it."""
    flags = {"index": folder / name, "embedder": folder / "embedder", "folder": folder / "pictures"}
    words = [f"--{flag}={value}" for flag, value in flags.items()]
    return [sys.executable, "-m", "profs_tf.retrieve", f"--batch_size={BATCH}", *words]


def kill_half_way(folder: Path, num_images: int) -> int:
    """Kills the command when half of the pictures are embedded; returns how many chunks were written."""
    process = subprocess.Popen(
        index_command(folder, "killed"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    # Chunks have about a thousand pictures.
    wanted = max(1, num_images // 2000)
    while process.poll() is None and len(list((folder / "killed/chunks").glob("*.npz"))) < wanted:
        time.sleep(0.05)
    if process.poll() is not None:
        raise RuntimeError("the command ended before it could be killed: use more images")
    process.send_signal(signal.SIGKILL)
    process.wait()
    return len(list((folder / "killed/chunks").glob("*.npz")))


def embedder_alone(folder: Path) -> dict:
    """Returns images per second of the signature `encoded_images`, in batches one after another."""
    import tensorflow as tf

    from profs_tf.serving.saved_model import ENCODED_SIGNATURE, load_signature

    embed = load_signature(folder / "embedder", ENCODED_SIGNATURE)
    paths = sorted((folder / "pictures").rglob("*.png"))[: 80 * BATCH]
    batches = [
        tf.constant([path.read_bytes() for path in paths[start : start + BATCH]])
        for start in range(0, len(paths), BATCH)
    ]
    embed(images=batches[0])
    wall, cpu = wall_and_cpu_seconds(lambda: [embed(images=batch)["embeddings"].numpy() for batch in batches])
    return {"rate": len(paths) / wall, "cpu_rate": len(paths) / cpu}


def build_whole(folder: Path) -> dict:
    """Returns the seconds of a build in a single run, without loading TensorFlow and the model."""

    def seconds(pictures: str, name: str) -> np.ndarray:
        words = folder / pictures, folder / "embedder", folder / name
        return wall_and_cpu_seconds(lambda: profs.ImageIndex.build(*words, batch_size=BATCH))

    # The first build of one picture imports TensorFlow, the second one measures loading the model.
    seconds("one", "first")
    loading = seconds("one", "second")
    whole = seconds("pictures", "whole") - loading
    return {"seconds": whole[0], "cpu_seconds": whole[1], "loading": loading[0]}


def search(folder: Path) -> dict:
    """Returns the seconds of the first query and of each further one, and the megabytes of embeddings."""
    seconds, index_type = [], profs.ImageIndex  # imports TensorFlow
    start = time.perf_counter()
    index = index_type.load(folder / "whole")
    for position in np.random.default_rng(0).choice(len(index), QUERIES, replace=False):
        index.query_indexed([position], k=8)
        seconds.append(time.perf_counter() - start)
        start = time.perf_counter()
    return {
        "first": seconds[0],
        "further": statistics.median(seconds[1:]),
        "embeddings": index.embeddings.nbytes / 2**20,
    }


def is_same(folder: Path) -> bool:
    """Returns whether the killed and continued index has the same files as the other, bit for bit."""
    files = [
        {file.name: file.read_bytes() for file in (folder / name).iterdir()} for name in ("killed", "whole")
    ]
    return files[0] == files[1]


if __name__ == "__main__":
    main()
