"""Embeds a split and reports how well its classes are retrieved and clustered.

Shapes: N images, D embedding dimension.
"""

from typing import Optional

import numpy as np
import tensorflow as tf
from absl import logging

from profs_tf.images import Preprocessing
from profs_tf.metrics import clustering as clustering_metrics
from profs_tf.metrics import retrieval
from profs_tf.pipeline import evaluation_pipeline

CLUSTERING = ("never", "best", "every_epoch")
_SPREAD_SAMPLE = 1000
_COLLAPSED = 1e-3


def embed(
    embedder: tf.keras.Model,
    image_list,
    *,
    preprocessing: Optional[Preprocessing] = None,
    batch_size: int = 128,
    progress: bool = False,
) -> np.ndarray:
    """Returns the embeddings of all images in order, float32 [N, D], under the evaluation preprocessing.

    Args:
        embedder: Keras model from uint8 images [B, H, W, 3] to [B, D].
        image_list: N images.
        preprocessing: None takes `images.preprocessing_for(image_list)`.
        batch_size: images embedded at once.
        progress: whether to show a progress bar.
    """
    dataset = evaluation_pipeline(image_list, preprocessing, batch_size)
    return np.asarray(embedder.predict(dataset, verbose=1 if progress else 0), np.float32)


def evaluate(
    embeddings,
    labels,
    *,
    ks=(1, 2, 4, 8),
    clustering: bool = True,
    seed: int = 0,
) -> dict:
    """Returns the figures of the paper's tables for one split searched in itself.

    Args:
        embeddings: float [N, D].
        labels: [N] integers or strings.
        ks: the K of Recall@K.
        clustering: whether to run k-means for `nmi` and `f1`; it takes far longer than Recall@K.
        seed: of k-means.

    Returns:
        Fractions `recall@K` for each K, `mean_pairwise_distance`, and with clustering `nmi` (arithmetic mean
        in the denominator) and `f1` (of pairs in one cluster, against pairs in one class).

    Raises:
        ValueError: as `metrics.retrieval.recall_at_k`.
    """
    embeddings = np.asarray(embeddings)
    recalls = retrieval.recall_at_k(embeddings, labels, ks=ks)
    report = {f"recall@{k}": float(recalls[k]) for k in ks}
    report["mean_pairwise_distance"] = mean_pairwise_distance(embeddings)
    warn_of_collapse(embeddings, report["mean_pairwise_distance"])
    if clustering:
        scores = clustering_metrics.cluster_scores(embeddings, labels, seed=seed)
        report["nmi"], report["f1"] = float(scores.nmi), float(scores.f1)
    return report


def mean_pairwise_distance(embeddings: np.ndarray) -> float:
    """Returns the mean Euclidean distance between two different images, of 1,000 spread evenly over the list.

    Near 0 the embedding has collapsed; for unit vectors drawn at random it is near the square root of 2.
    """
    count = min(len(embeddings), _SPREAD_SAMPLE)
    if count < 2:
        return 0.0
    sample = np.asarray(embeddings)[np.linspace(0, len(embeddings) - 1, count).astype(int)].astype(np.float64)
    squares = np.sum(sample**2, axis=1)
    distances_sq = np.maximum(squares[:, None] + squares[None] - 2.0 * sample @ sample.T, 0.0)
    np.fill_diagonal(distances_sq, 0.0)
    return float(np.sqrt(distances_sq).sum() / (count * (count - 1)))


def warn_of_collapse(embeddings: np.ndarray, mean_distance: float) -> None:
    """Logs a warning where all embeddings are nearly equal, measured against their length."""
    length = float(np.sqrt(np.mean(np.sum(np.square(embeddings[:_SPREAD_SAMPLE]), axis=1))))
    if len(embeddings) > 1 and mean_distance <= _COLLAPSED * length:
        logging.warning(
            "The embedding has collapsed: the mean distance between images is %.2g at a mean length of %.2g. "
            "A lower learning rate or semi-hard mining usually helps.",
            mean_distance,
            length,
        )


def format_report(reports: dict) -> str:
    """Returns a table of reports in percent, one line each.

    Args:
        reports: name of the line to what `evaluate` returned.
    """
    shown = [name for name in _report_names(reports) if name.startswith("recall@") or name in ("nmi", "f1")]
    width = max(len(line) for line in reports)
    header = " " * width + "".join(f"{name:>11}" for name in shown)
    lines = [header]
    for line, report in reports.items():
        cells = [f"{100 * report[name]:11.2f}" if name in report else f"{'':11}" for name in shown]
        lines.append(f"{line:<{width}}" + "".join(cells))
    return "\n".join(lines)


def _report_names(reports: dict) -> list:
    return list(dict.fromkeys(name for report in reports.values() for name in report))
