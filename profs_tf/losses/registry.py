"""The losses by name. Each needs one line here: it exports the class and registers it by its file's name."""

from typing import Any

from profs_tf.losses.angular import AngularLoss as AngularLoss
from profs_tf.losses.arc_face import ArcFaceLoss as ArcFaceLoss
from profs_tf.losses.base import MetricLoss, Option
from profs_tf.losses.contrastive import ContrastiveLoss as ContrastiveLoss
from profs_tf.losses.cos_face import CosFaceLoss as CosFaceLoss
from profs_tf.losses.lifted_structure import LiftedStructureLoss as LiftedStructureLoss
from profs_tf.losses.margin import MarginLoss as MarginLoss
from profs_tf.losses.multi_similarity import MultiSimilarityLoss as MultiSimilarityLoss
from profs_tf.losses.n_pair import NPairLoss as NPairLoss
from profs_tf.losses.norm_softmax import NormSoftmaxLoss as NormSoftmaxLoss
from profs_tf.losses.proxy_anchor import ProxyAnchorLoss as ProxyAnchorLoss
from profs_tf.losses.proxy_nca import ProxyNCALoss as ProxyNCALoss
from profs_tf.losses.soft_triple import SoftTripleLoss as SoftTripleLoss
from profs_tf.losses.sup_con import SupConLoss as SupConLoss
from profs_tf.losses.triplet import TripletLoss as TripletLoss
from profs_tf.utils.checks import check_one_of

_LOSSES: dict[str, type[MetricLoss]] = {
    value.__module__.rpartition(".")[2]: value
    for value in list(vars().values())
    if isinstance(value, type) and issubclass(value, MetricLoss) and value is not MetricLoss
}


def names() -> list[str]:
    """Returns the names of the losses."""
    return list(_LOSSES)


def names_taking_candidates() -> list[str]:
    """Returns the names of the losses that pair queries with images outside the batch."""
    return [name for name, loss in _LOSSES.items() if loss.takes_candidates]


def loss_class(name: str) -> type[MetricLoss]:
    """Returns the class of a loss.

    Raises:
        ValueError: If ``name`` is unknown.
    """
    return _LOSSES[check_one_of("name", name, _LOSSES)]


def options(name: str) -> dict[str, Option]:
    """Returns the options of a loss: name -> (type, default), in the order of its constructor.

    Raises:
        ValueError: If ``name`` is unknown.
    """
    return loss_class(name).options()


def get(name: str, **options: Any) -> MetricLoss:
    """Returns a new loss.

    Args:
        name: One of ``names()``.
        **options: Its options, see ``options(name)``.

    Raises:
        ValueError: If ``name`` or an option is unknown, or an option is out of range.
    """
    chosen = loss_class(name)
    valid = chosen.options()
    for option in options:
        if option not in valid:
            raise ValueError(f"`{option}` is not an option of loss {name}. It has: {', '.join(valid)}.")
    return chosen(**options)
