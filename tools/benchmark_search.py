"""Measures exact and approximate search among many embeddings: time, Recall, memory, disk.

    python tools/benchmark_search.py                                # a million of 128 dimensions, IVF1024,SQ8
    python tools/benchmark_search.py --factories="IVF1024,SQ8;HNSW32"
    python tools/benchmark_search.py --images=100000                # fewer, in a minute

The embeddings are synthetic: clusters of unequal size on the unit sphere, each of which varies in directions
of its own. Queries are new members of the clusters. A fresh process, which loads no embedder, opens the index
and asks one query after another; both searches get the same queries in turn, so their ratio is of one run.
Recall@10 counts the exact search's ten nearest. Memory is the peak of this process above what importing the
package took; "its own" is what is no page of a file. The tool ends with exit code 1 if no factory answers a
query within 5 ms at a Recall@10 of 0.95.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from measuring import print_line, run_part, status_kilobytes

K = 10
MOST_SECONDS, LEAST_RECALL = 0.005, 0.95
BLOCK = 65_536
INNER = 16


def main() -> None:
    """Builds the indices and measures both searches, each in a process of its own."""
    arguments = parse_arguments()
    if arguments.part:
        part = {"make": make, "build": build, "ask": ask}[arguments.part]
        print(json.dumps(part(Path(arguments.work_dir), arguments)))
        return
    with tempfile.TemporaryDirectory(dir=arguments.work_dir) as folder:
        if not report(Path(folder), arguments):
            sys.exit(1)


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=1_000_000, help="embeddings (default: 1000000)")
    parser.add_argument("--d", type=int, default=128, help="dimensions (default: 128)")
    parser.add_argument("--queries", type=int, default=50, help="queries (default: 50)")
    parser.add_argument(
        "--factories", default="IVF1024,SQ8", help="of faiss, separated by ; (default: IVF1024,SQ8)"
    )
    parser.add_argument("--work_dir", help="folder for 3 GB of temporary files (default: the system's)")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    return parser.parse_args()


def report(folder: Path, arguments: argparse.Namespace) -> bool:
    """Runs all parts and prints their figures; returns whether a factory keeps the bounds."""
    options = [f"--work_dir={folder}"]
    options += [f"--{name}={getattr(arguments, name)}" for name in ("images", "d", "queries")]
    made = run_part(__file__, "make", *options)
    print(f"{arguments.images:,} embeddings of {arguments.d} dimensions, {os.cpu_count()} cores")
    print_line("image index", f"{made['seconds']:.1f} s to write, {made['megabytes']:,.0f} MB")
    reached = False
    for factory in arguments.factories.split(";"):
        built = run_part(__file__, "build", *options, f"--factories={factory}")
        asked = run_part(__file__, "ask", *options)
        ratio = asked["exact"] / asked["faiss"]
        print_line(
            factory,
            f"{built['seconds']:.0f} s to build, {built['megabytes']:,.0f} MB on disk, {built['setting']}",
        )
        print_line("  opened, first query", f"{asked['open']:.2f} s, {asked['first']:.2f} s")
        print_line(
            "  memory with faiss", f"{asked['faiss_memory']:,.0f} MB, {asked['faiss_own']:,.0f} its own"
        )
        print_line("  memory after exact search", f"{asked['memory']:,.0f} MB, {asked['own']:,.0f} its own")
        print_line("  a query, exactly", f"{1e3 * asked['exact']:.1f} ms")
        print_line("  a query by faiss", f"{1e3 * asked['faiss']:.2f} ms, a {ratio:.0f}th")
        print_line("  Recall@10", f"{asked['recall']:.4f}; of indexed images {built['recall']:.4f}")
        reached |= asked["faiss"] < MOST_SECONDS and asked["recall"] >= LEAST_RECALL
    print_line("under 5 ms at Recall@10 of 0.95", "yes" if reached else "NO")
    return reached


def clustered(num_images: int, dimension: int, queries: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns unit embeddings float32 `[N, D]`, and `[queries, D]` of the same clusters."""
    random = np.random.default_rng(0)
    num_clusters = max(2, num_images // 100)
    centers = random.standard_normal((num_clusters, dimension)).astype(np.float32)
    # Cluster sizes by a power law; each varies in a few directions of its own, and a little in all.
    sizes = random.pareto(2.0, num_clusters) + 0.2
    label_of = random.choice(num_clusters, num_images + queries, p=sizes / sizes.sum())
    directions = random.standard_normal((64, INNER, dimension)).astype(np.float32) / np.sqrt(INNER)
    embeddings = np.empty([num_images + queries, dimension], np.float32)
    for start in range(0, len(embeddings), BLOCK):
        labels = label_of[start : start + BLOCK]
        inner = random.standard_normal((len(labels), INNER)).astype(np.float32)
        rows = centers[labels] + 0.2 * random.standard_normal((len(labels), dimension)).astype(np.float32)
        for kind in range(len(directions)):
            chosen = labels % len(directions) == kind
            rows[chosen] += 0.5 * inner[chosen] @ directions[kind]
        embeddings[start : start + BLOCK] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return embeddings[:num_images], embeddings[num_images:]


def make(folder: Path, arguments: argparse.Namespace) -> dict:
    """Writes the embeddings as an index of images, and the queries."""
    import profs_tf as profs

    embeddings, queries = clustered(arguments.images, arguments.d, arguments.queries)
    np.save(folder / "queries.npy", queries)
    names = [f"{number // 1000:04}/{number:07}.jpg" for number in range(len(embeddings))]
    start = time.perf_counter()
    profs.ImageIndex.from_embeddings(embeddings, names, folder / "index")
    return {"seconds": time.perf_counter() - start, "megabytes": megabytes(folder / "index", "*")}


def build(folder: Path, arguments: argparse.Namespace) -> dict:
    """Builds the faiss index as the command does."""
    import profs_tf as profs

    index = profs.ImageIndex.load(folder / "index")
    start = time.perf_counter()
    measured = index.build_faiss(arguments.factories)
    return {
        "seconds": time.perf_counter() - start,
        "megabytes": megabytes(folder / "index", "faiss-*"),
        "recall": measured.recall,
        "setting": measured.parameter,
    }


def ask(folder: Path, arguments: argparse.Namespace) -> dict:
    """Opens the index and asks, as a fresh process."""
    import profs_tf as profs

    queries = np.load(folder / "queries.npy")
    index_type = profs.ImageIndex  # imports TensorFlow
    before = memory()
    start = time.perf_counter()
    index = index_type.load(folder / "index")
    opened = time.perf_counter()
    index.query(queries[0], K, search="faiss")
    first = time.perf_counter()
    for query in queries[1:]:
        index.query(query, K, search="faiss")
    faiss_memory = memory()
    index.query(queries[0], K)
    times: dict[str, list[float]] = {"faiss": [], "exact": []}
    hits = 0
    for query in queries:
        found = {}
        for search, seconds in times.items():
            begin = time.perf_counter()
            found[search] = {item.name for item in index.query(query, K, search=search)[0]}
            seconds.append(time.perf_counter() - begin)
        hits += len(found["faiss"] & found["exact"])
    after = memory()
    return {
        "open": opened - start,
        "first": first - opened,
        "recall": hits / (K * len(queries)),
        "faiss_memory": faiss_memory["VmHWM"] - before["VmRSS"],
        "faiss_own": faiss_memory["RssAnon"] - before["RssAnon"],
        "memory": after["VmHWM"] - before["VmRSS"],
        "own": after["RssAnon"] - before["RssAnon"],
        **{search: statistics.median(seconds) for search, seconds in times.items()},
    }


def megabytes(folder: Path, pattern: str) -> float:
    """Returns the size of files."""
    return sum(file.stat().st_size for file in folder.glob(pattern)) / 1e6


def memory() -> dict[str, float]:
    """Returns this process's memory in megabytes, as Linux reports it: peak, present, and own."""
    return {name: status_kilobytes(name) / 1e3 for name in ("VmHWM", "VmRSS", "RssAnon")}


if __name__ == "__main__":
    main()
