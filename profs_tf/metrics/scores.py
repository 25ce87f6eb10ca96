"""The scores of an embedding in one call: Recall@K, MAP@R, NMI and F1, as a report.

Shapes: N images, D embedding dimension.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Optional

import numpy as np
from absl import logging

from profs_tf.metrics import clustering as clustering_metrics
from profs_tf.metrics import retrieval
from profs_tf.metrics.arguments import check_ks
from profs_tf.utils.array_types import Array, Labels
from profs_tf.utils.checks import check_count

CLUSTERING = ("never", "best", "every_epoch")
_SPREAD_SAMPLE = 1000
_COLLAPSED = 1e-3
# Fractions of which higher is better, by the start of their name.
_SCORES = ("recall@", "mrr", "map@r", "r_precision", "nmi", "f1", "ami")


def evaluate(
    embeddings: Array,
    labels: Labels,
    *,
    ks: Sequence[int] = (1, 2, 4, 8),
    gallery_embeddings: Optional[Array] = None,
    gallery_labels: Optional[Labels] = None,
    distance: str = "euclidean",
    map_at_r: bool = False,
    intervals: bool = False,
    clustering: bool = True,
    seed: int = 0,
    progress: bool = False,
) -> dict[str, float]:
    """Returns the figures of the paper's tables, and more where asked for, in one call.

        profs.metrics.evaluate(embeddings, labels, ks=(1, 10, 100))

    Args:
        embeddings: float [N, D], NumPy or TensorFlow: the queries.
        labels: [N] integers or strings.
        ks: The K of Recall@K.
        gallery_embeddings: float [G, D], another set to search in; None: the queries' own.
        gallery_labels: [G], its labels.
        distance: "euclidean" or "cosine".
        map_at_r: Whether to report MAP@R and R-precision, which take up to three times as long.
        intervals: Whether to report 95 % confidence intervals of Recall@K, by drawing classes anew.
        clustering: Whether to cluster the queries for NMI, F1 and AMI; takes far longer than Recall@K. By
            k-means with as many clusters as classes, one start by greedy k-means++, at most 100 iterations
            until one gains no more than 1e-5: these values are those of scikit-learn's default k-means.
        seed: Of k-means and of the intervals; a whole number >= 0.
        progress: Whether to show progress.

    Returns:
        The report: fractions `recall@K` for each K, `mrr`, and as asked for `map@r`, `r_precision`,
        `recall@K_low` and `recall@K_high`, `nmi` (arithmetic mean in the denominator), `f1` (of pairs in one
        cluster, against pairs in one class), `ami`; the number `left_out` of queries whose class has no other
        image; `mean_pairwise_distance`.

    Raises:
        ValueError: As `metrics.evaluate_retrieval`, or a K or the seed is out of its range.
    """
    report, _ = evaluate_in_full(
        embeddings,
        labels,
        ks=ks,
        gallery_embeddings=gallery_embeddings,
        gallery_labels=gallery_labels,
        distance=distance,
        map_at_r=map_at_r,
        intervals=intervals,
        clustering=clustering,
        seed=seed,
        progress=progress,
    )
    return report


def evaluate_in_full(
    embeddings: Array,
    labels: Labels,
    *,
    ks: Sequence[int] = (1, 2, 4, 8),
    gallery_embeddings: Optional[Array] = None,
    gallery_labels: Optional[Labels] = None,
    distance: str = "euclidean",
    map_at_r: bool = False,
    intervals: bool = False,
    clustering: bool = True,
    seed: int = 0,
    progress: bool = False,
) -> tuple[dict[str, float], retrieval.RetrievalResult]:
    """Searches, clusters and reports; returns (report, what the search gave for each image).

    Args and errors are those of `evaluate`, whose report is the first element; the second is the
    `metrics.RetrievalResult`.
    """
    num_candidates = len(embeddings) - 1 if gallery_embeddings is None else len(gallery_embeddings)
    # Before the search, which may take minutes.
    check_ks(ks, num_candidates)
    check_count("seed", seed, minimum=0)
    found = retrieval.evaluate_retrieval(
        embeddings,
        labels,
        gallery_embeddings=gallery_embeddings,
        gallery_labels=gallery_labels,
        distance=distance,
        with_map_at_r=map_at_r,
        progress=progress,
    )
    report = {f"recall@{k}": value for k, value in found.recall_at(ks).items()}
    report["mrr"] = found.mean_reciprocal_rank
    if found.map_at_r is not None and found.r_precision is not None:
        report["map@r"], report["r_precision"] = found.map_at_r, found.r_precision
    if intervals:
        for k in ks:
            interval = found.recall_interval_at(k, seed=seed)
            report[f"recall@{k}_low"], report[f"recall@{k}_high"] = interval
    report["left_out"] = found.num_left_out
    report["mean_pairwise_distance"] = mean_pairwise_distance(embeddings)
    warn_of_collapse(embeddings, report["mean_pairwise_distance"])
    if clustering:
        scores = clustering_metrics.cluster_scores(embeddings, labels, seed=seed, progress=progress)
        report["nmi"], report["f1"], report["ami"] = scores.nmi, scores.f1, scores.ami
    return report, found


def query_and_gallery(embeddings: Array, labels: Labels, is_query: Optional[np.ndarray]) -> dict[str, Any]:
    """Returns the arguments of `evaluate` that a split is passed by.

    Args:
        embeddings: Float [N, D], of queries and gallery.
        labels: [N].
        is_query: Bool [N]; None: every image is a query, and all others are its gallery.
    """
    if is_query is None:
        return {"embeddings": embeddings, "labels": labels}
    embeddings, labels = np.asarray(embeddings), np.asarray(labels)
    return {
        "embeddings": embeddings[is_query],
        "labels": labels[is_query],
        "gallery_embeddings": embeddings[~is_query],
        "gallery_labels": labels[~is_query],
    }


def is_score(name: str) -> bool:
    """Whether a figure of a report or a log is a fraction of which higher is better, such as `recall@1`."""
    return name.removeprefix("validation_").startswith(_SCORES)


def mean_pairwise_distance(embeddings: Array) -> float:
    """Returns the mean Euclidean distance between two different images, of 1,000 spread evenly over the list.

    Near 0 the embedding has collapsed; for unit vectors drawn at random it is near the square root of 2.
    """
    embeddings = np.asarray(embeddings)
    count = min(len(embeddings), _SPREAD_SAMPLE)
    if count < 2:
        return 0.0
    sample = embeddings[np.linspace(0, len(embeddings) - 1, count).astype(int)].astype(np.float64)
    squares = np.sum(sample**2, axis=1)
    distances_sq = np.maximum(squares[:, None] + squares[None] - 2.0 * sample @ sample.T, 0.0)
    np.fill_diagonal(distances_sq, 0.0)
    return float(np.sqrt(distances_sq).sum() / (count * (count - 1)))


def warn_of_collapse(embeddings: Array, mean_distance: float) -> None:
    """Logs a warning where all embeddings are nearly equal, measured against their length."""
    sample = np.asarray(embeddings)[:_SPREAD_SAMPLE].astype(np.float64)
    length = float(np.sqrt(np.mean(np.sum(np.square(sample), axis=1))))
    if len(embeddings) > 1 and mean_distance <= _COLLAPSED * length:
        logging.warning(
            "The embedding has collapsed: the mean distance between images is %.2g at a mean length of %.2g. "
            "A lower learning rate or semi-hard mining usually helps.",
            mean_distance,
            length,
        )


def format_report(reports: Mapping[str, Mapping[str, float]]) -> str:
    """Returns a table of reports in percent, one line each.

    Args:
        reports: Name of the line to what `evaluate` returned.
    """
    shown = [name for name in _report_names(reports) if is_score(name)]
    width = max(len(line) for line in reports)
    lines = [" " * width + "".join(f"{name:>{max(11, len(name) + 2)}}" for name in shown)]
    for line, report in reports.items():
        texts = {name: f"{100 * report[name]:.2f}" if name in report else "" for name in shown}
        cells = [f"{texts[name]:>{max(11, len(name) + 2)}}" for name in shown]
        lines.append(f"{line:<{width}}" + "".join(cells))
    return "\n".join(lines)


def _report_names(reports: Mapping[str, Mapping[str, float]]) -> list[str]:
    return list(dict.fromkeys(name for report in reports.values() for name in report))
