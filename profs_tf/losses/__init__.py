"""The losses: each over one batch of embeddings, for ordinary batches and, with a query mask, for PROFS."""

from profs_tf.losses.base import MetricLoss as MetricLoss
from profs_tf.losses.base import Option as Option
from profs_tf.losses.registry import *  # noqa: F403
