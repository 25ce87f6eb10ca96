"""The losses: each over one batch of embeddings, for ordinary batches and, with a query mask, for PROFS."""

from profs_tf.losses.angular import AngularLoss
from profs_tf.losses.base import MetricLoss, Option
from profs_tf.losses.contrastive import ContrastiveLoss
from profs_tf.losses.lifted_structure import LiftedStructureLoss
from profs_tf.losses.margin import MarginLoss
from profs_tf.losses.multi_similarity import MultiSimilarityLoss
from profs_tf.losses.n_pair import NPairLoss
from profs_tf.losses.proxy_nca import ProxyNCALoss
from profs_tf.losses.registry import get, names, options
from profs_tf.losses.soft_triple import SoftTripleLoss
from profs_tf.losses.triplet import TripletLoss

__all__ = [
    "AngularLoss",
    "ContrastiveLoss",
    "LiftedStructureLoss",
    "MarginLoss",
    "MetricLoss",
    "MultiSimilarityLoss",
    "NPairLoss",
    "Option",
    "ProxyNCALoss",
    "SoftTripleLoss",
    "TripletLoss",
    "get",
    "names",
    "options",
]
