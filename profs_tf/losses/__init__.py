"""The losses: each over one batch of embeddings, for ordinary batches and, with a query mask, for PROFS."""

from profs_tf.losses.base import MetricLoss as MetricLoss
from profs_tf.losses.base import Option as Option
from profs_tf.losses.chance_constrained import ChanceConstrainedLoss as ChanceConstrainedLoss
from profs_tf.losses.cross_batch_memory import CrossBatchMemory as CrossBatchMemory
from profs_tf.losses.registry import *  # noqa: F403

# What the registry exports, one loss a line there.
__all__ = [
    name for name, value in vars().items() if getattr(value, "__module__", "").startswith(f"{__name__}.")
]
