"""Measures the evaluation against the matrix products that it cannot do without.

    python tools/benchmark_evaluation.py                          # the size of Stanford Online Products
    python tools/benchmark_evaluation.py --n=12000 --classes=2200 # a smaller one, in a minute
    python tools/benchmark_evaluation.py search --n=12000 --classes=2200 --noise=20
    python tools/benchmark_evaluation.py quality --n=11000 --d=128 --classes=2200 --noise=1.1 --seeds=40
    python tools/benchmark_evaluation.py quality --embeddings=emoji.npy --labels=emoji_labels.npy

Embeddings are unit vectors around a random center for each class, or those of a file. Times are medians of
measurements that take turns in one process with the same threads, and are printed over that of the bare
product: all images with all images (search) or with all centers (kmeans), in blocks, by TensorFlow; in
"quality", over that of scikit-learn's k-means. faiss, which the package does not need, is compared with where
it is installed (`pip install faiss-cpu`). The limits that are printed are for the full size: with few images,
what grows with N only and the tiles on the diagonal weigh more.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import tensorflow as tf
from measuring import median_times, status_kilobytes

from profs_tf import metrics
from profs_tf.metrics.agreement import normalized_mutual_information, pair_f1

KS = (1, 10, 100, 1000)
BLOCK = 2048
QUALITY_IMAGES = 12000


def main() -> None:
    """Measures what was asked for."""
    arguments = parse_arguments()
    if arguments.memory_of:
        print(added_memory(Path(arguments.memory_of)))
        return
    if arguments.embeddings:
        embeddings, labels = np.load(arguments.embeddings), np.load(arguments.labels)
    else:
        embeddings, labels = synthetic_split(arguments.n, arguments.d, arguments.classes, arguments.noise)
    print(
        f"{len(embeddings):,} embeddings, {embeddings.shape[1]} dimensions, "
        f"{len(np.unique(labels)):,} classes, {os.cpu_count()} cores, medians of {arguments.repeats}"
    )
    if "search" in arguments.parts:
        measure_search(embeddings, labels, arguments.repeats)
    if "memory" in arguments.parts:
        measure_memory(embeddings, labels)
    if "kmeans" in arguments.parts:
        measure_kmeans(embeddings, labels, arguments.repeats)
    if "quality" in arguments.parts:
        measure_quality(embeddings, labels, arguments.seeds)


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = ["search", "memory", "kmeans", "quality"]
    parser.add_argument("parts", nargs="*", default=parts, help=f"of {', '.join(parts)} (default: all)")
    parser.add_argument("--n", type=int, default=60502, help="images (default: 60502)")
    parser.add_argument("--d", type=int, default=512, help="dimensions (default: 512)")
    parser.add_argument("--classes", type=int, default=11316, help="classes (default: 11316)")
    parser.add_argument("--noise", type=float, default=2.5, help="spread within classes (default: 2.5)")
    parser.add_argument("--embeddings", help=".npy file to measure with, float [N, D]")
    parser.add_argument("--labels", help=".npy file with the integer labels of --embeddings")
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each time (default: 3)")
    parser.add_argument("--seeds", type=int, default=5, help="of quality, two or more (default: 5)")
    parser.add_argument("--memory_of", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.seeds < 2:
        parser.error(f"--seeds must be >= 2, got {arguments.seeds}.")
    unknown = set(arguments.parts) - set(parts)
    if unknown:
        parser.error(f"parts must be of {', '.join(parts)}, got {', '.join(sorted(unknown))}.")
    return arguments


def synthetic_split(size: int, dimension: int, num_classes: int, noise: float) -> tuple:
    """Unit vectors float32 `[N, D]` and labels int64 `[N]`."""
    generator = np.random.default_rng(0)
    labels = generator.integers(num_classes, size=size)
    centers = generator.standard_normal((num_classes, dimension), np.float32)
    embeddings = centers[labels] + np.float32(noise) * generator.standard_normal(
        (size, dimension), np.float32
    )
    return embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True), labels


def print_ratios(seconds: dict, bare: float, targets: dict) -> None:
    """One line for each time, with its ratio to the bare product and what it must not exceed."""
    for name, value in seconds.items():
        target = f"  (at most {targets[name]})" if name in targets else ""
        print(f"  {name:<44}{value:9.2f} s  {value / bare:6.2f}{target}")


def bare_product(left: np.ndarray, right: np.ndarray):
    """All products of rows, in blocks, and nothing else."""
    lefts, rights = (
        [tf.constant(part[start : start + BLOCK]) for start in range(0, len(part), BLOCK)]
        for part in (left, right)
    )

    def multiply() -> None:
        for block in lefts:
            for other in rights:
                tf.matmul(block, other, transpose_b=True)

    return multiply


def measure_search(embeddings: np.ndarray, labels: np.ndarray, repeats: int) -> None:
    """Recall@K and MAP@R beside the bare product, and beside faiss's exact search."""
    ks = tuple(k for k in KS if k < len(embeddings))
    found = {}

    def search(name: str, **options):
        def run() -> None:
            found[name] = metrics.evaluate_retrieval(embeddings, labels, **options)

        return run

    recall, precision = f"Recall@{','.join(map(str, ks))}", "the same, MAP@R and R-precision"
    functions = {
        "bare product": bare_product(embeddings, embeddings),
        recall: search("recall"),
        precision: search("precision", with_map_at_r=True),
    }
    if importlib.util.find_spec("faiss"):
        functions[f"faiss, flat index, k={max(ks) + 1}"] = lambda: faiss_neighbors(embeddings, max(ks) + 1)
    print("search")
    seconds = median_times(functions, repeats)
    print_ratios(seconds, seconds["bare product"], {recall: 0.75, precision: 3.0})
    result = found["precision"]
    shown = ", ".join(f"R@{k} {value:.4f}" for k, value in result.recall_at(ks).items())
    print(f"  {shown}, MAP@R {result.map_at_r:.4f}, R-precision {result.r_precision:.4f}")


def faiss_neighbors(embeddings: np.ndarray, k: int) -> np.ndarray:
    """The k nearest images by faiss, the query among them."""
    import faiss

    index = faiss.IndexFlatL2(embeddings.shape[1])
    index.add(embeddings)
    return index.search(embeddings, k)[1]


def measure_memory(embeddings: np.ndarray, labels: np.ndarray) -> None:
    """Memory that the search adds at its peak, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder, "embeddings.npy"), embeddings)
        np.save(Path(folder, "labels.npy"), labels)
        command = [sys.executable, __file__, f"--memory_of={folder}"]
        added = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    print(f"memory\n  the search, above the embeddings{float(added):21.2f} GB          (at most 2)")


def added_memory(folder: Path) -> float:
    """Gigabytes by which the search raises the peak of this process."""
    embeddings, labels = np.load(folder / "embeddings.npy"), np.load(folder / "labels.npy")
    # TensorFlow's own memory is not the search's.
    tf.matmul(tf.ones((BLOCK, 8)), tf.ones((BLOCK, 8)), transpose_b=True)
    before = status_kilobytes("VmRSS")
    metrics.evaluate_retrieval(embeddings, labels, with_map_at_r=True)
    return (status_kilobytes("VmHWM") - before) / 2**20


def measure_kmeans(embeddings: np.ndarray, labels: np.ndarray, repeats: int) -> None:
    """Iterations and the start of k-means beside the bare product, and a whole run."""
    num_clusters = len(np.unique(labels))
    first = random_images(embeddings, num_clusters, seed=1)

    def cluster(count: int, start):
        return lambda: metrics.kmeans(embeddings, count, start=start, max_iterations=1)

    functions = {
        "bare product": bare_product(embeddings, first),
        "k-means, one cluster": cluster(1, first[:1]),
        "k-means from given centers, an iteration": cluster(num_clusters, first),
        "k-means from k-means++, an iteration": cluster(num_clusters, "k-means++"),
    }
    print("kmeans")
    seconds = median_times(functions, repeats)
    bare, iteration = seconds["bare product"], "an iteration, half of the difference"
    given = seconds["k-means from given centers, an iteration"]
    # Both prepare the embeddings; the second also compares all images with all centers, twice.
    seconds[iteration] = (given - seconds["k-means, one cluster"]) / 2
    print_ratios(seconds, bare, {iteration: 1.15})
    start = (seconds["k-means from k-means++, an iteration"] - given) / seconds[iteration]
    print(f"  the start of k-means++ in iterations{start:27.2f}  (at most 5)")
    begin = time.perf_counter()
    scores = metrics.cluster_scores(embeddings, labels, progress=sys.stderr.isatty())
    print_ratios({f"cluster_scores, {scores.iterations} iterations": time.perf_counter() - begin}, bare, {})
    print(f"  NMI {scores.nmi:.4f}, F1 {scores.f1:.4f}, AMI {scores.ami:.4f}, converged: {scores.converged}")


def measure_quality(embeddings: np.ndarray, labels: np.ndarray, num_seeds: int) -> None:
    """NMI, F1 and seconds beside scikit-learn's k-means: by default, and from one random start."""
    # Whole classes, so that they keep their size.
    chosen = labels < max(2, round(QUALITY_IMAGES / len(embeddings) * (labels.max() + 1)))
    embeddings, labels = embeddings[chosen], labels[chosen]
    num_clusters = len(np.unique(labels))
    clusterings = seeded_clusterings(embeddings, num_clusters, iterations=20)
    print(
        f"quality, {len(labels):,} images, {num_clusters:,} clusters, "
        f"mean and standard error of {num_seeds} seeds, median seconds"
    )
    found = {name: [] for name in clusterings}
    # In turn, so that what else the machine does falls on all of them.
    for seed in range(num_seeds):
        for name, cluster in clusterings.items():
            begin = time.perf_counter()
            clusters = cluster(seed)
            seconds = time.perf_counter() - begin
            found[name].append(
                (normalized_mutual_information(labels, clusters), pair_f1(labels, clusters), seconds)
            )
    print(f"  {'':<44}{'NMI':>16}{'F1':>16}{'seconds':>9}{'ratio':>7}")
    for name, rows in found.items():
        mean, seconds = np.mean(rows, axis=0), np.median(rows, axis=0)[2]
        error = np.std(rows, axis=0, ddof=1) / num_seeds**0.5
        scores = "".join(f"{mean[i]:9.4f} {error[i]:.4f}" for i in range(2))
        ratio = seconds / np.median(found["scikit-learn's default"], axis=0)[2]
        print(f"  {name:<44}{scores}{seconds:9.2f}{ratio:7.2f}")


def seeded_clusterings(embeddings: np.ndarray, num_clusters: int, iterations: int) -> dict:
    """Functions from a seed to clusters, int64 `[N]`: by default, and by iterations from one random start."""
    from sklearn.cluster import KMeans

    def scikit_learn(seed: int, start, **options) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            means = KMeans(num_clusters, init=start, n_init=1, random_state=seed, **options)
            return means.fit_predict(embeddings)

    def ours(seed: int, start, **options) -> np.ndarray:
        return metrics.kmeans(embeddings, num_clusters, seed=seed, start=start, **options).assignments

    def random_start(seed: int) -> np.ndarray:
        return random_images(embeddings, num_clusters, seed)

    found = {
        "scikit-learn's default": lambda seed: scikit_learn(seed, "k-means++"),
        "ours": lambda seed: ours(seed, "k-means++"),
        f"scikit-learn, random start, {iterations} iterations": lambda seed: scikit_learn(
            seed, random_start(seed), max_iter=iterations, tol=0.0
        ),
        f"ours, the same start, {iterations} iterations": lambda seed: ours(
            seed, random_start(seed), max_iterations=iterations, tolerance=0.0
        ),
    }
    if importlib.util.find_spec("faiss"):
        found[f"faiss, {iterations} iterations"] = lambda seed: faiss_clusters(
            embeddings, num_clusters, iterations, seed
        )
    return found


def random_images(embeddings: np.ndarray, size: int, seed: int) -> np.ndarray:
    """Some of the embeddings."""
    return embeddings[np.random.default_rng(seed).choice(len(embeddings), size, replace=False)]


def faiss_clusters(embeddings: np.ndarray, num_clusters: int, iterations: int, seed: int) -> np.ndarray:
    """Clusters by faiss's k-means, int64 `[N]`."""
    import faiss

    found = faiss.Kmeans(
        embeddings.shape[1], num_clusters, niter=iterations, seed=seed, min_points_per_centroid=1
    )
    found.train(embeddings)
    return found.index.search(embeddings, 1)[1][:, 0]


if __name__ == "__main__":
    main()
