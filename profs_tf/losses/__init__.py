"""The losses: each over one batch of embeddings, for ordinary batches and, with a query mask, for PROFS."""

from profs_tf.losses.base import REQUIRED, MetricLoss, Option
from profs_tf.losses.contrastive import ContrastiveLoss
from profs_tf.losses.margin import MarginLoss
from profs_tf.losses.registry import get, names, options

__all__ = [
    "REQUIRED",
    "ContrastiveLoss",
    "MarginLoss",
    "MetricLoss",
    "Option",
    "get",
    "names",
    "options",
]
