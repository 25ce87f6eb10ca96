"""Metrics of image retrieval and clustering. NumPy arrays or TensorFlow tensors in, plain numbers out.

TensorFlow and scikit-learn are imported when they are needed, not with this package.
"""

from profs_tf.metrics.bootstrap import Interval, class_bootstrap
from profs_tf.metrics.clustering import ClusterScores, cluster_scores
from profs_tf.metrics.k_means.lloyd import KMeansResult, kmeans
from profs_tf.metrics.neighbors import NearestSearch, nearest
from profs_tf.metrics.retrieval import RetrievalResult, evaluate_retrieval, recall_at_k
from profs_tf.metrics.scores import evaluate

__all__ = [
    "ClusterScores",
    "Interval",
    "KMeansResult",
    "NearestSearch",
    "RetrievalResult",
    "class_bootstrap",
    "cluster_scores",
    "evaluate",
    "evaluate_retrieval",
    "kmeans",
    "nearest",
    "recall_at_k",
]
