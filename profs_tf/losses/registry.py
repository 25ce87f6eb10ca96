"""The losses by name, as configuration files and the command line know them."""

from typing import Any

from profs_tf.losses.angular import AngularLoss
from profs_tf.losses.base import MetricLoss, Option
from profs_tf.losses.contrastive import ContrastiveLoss
from profs_tf.losses.lifted_structure import LiftedStructureLoss
from profs_tf.losses.margin import MarginLoss
from profs_tf.losses.multi_similarity import MultiSimilarityLoss
from profs_tf.losses.n_pair import NPairLoss
from profs_tf.losses.proxy_nca import ProxyNCALoss
from profs_tf.losses.soft_triple import SoftTripleLoss
from profs_tf.losses.triplet import TripletLoss

_LOSSES: dict[str, type[MetricLoss]] = {
    "contrastive": ContrastiveLoss,
    "triplet": TripletLoss,
    "margin": MarginLoss,
    "lifted_structure": LiftedStructureLoss,
    "n_pair": NPairLoss,
    "angular": AngularLoss,
    "multi_similarity": MultiSimilarityLoss,
    "soft_triple": SoftTripleLoss,
    "proxy_nca": ProxyNCALoss,
}


def names() -> list[str]:
    """Returns the names that ``get`` knows."""
    return list(_LOSSES)


def _loss_class(name: str) -> type[MetricLoss]:
    if name not in _LOSSES:
        raise ValueError(f"`name` must be one of {', '.join(_LOSSES)}, got {name}.")
    return _LOSSES[name]


def options(name: str) -> dict[str, Option]:
    """Returns the options of a loss: name -> (type, default), in the order of its constructor.

    Raises:
        ValueError: unknown ``name``.
    """
    return _loss_class(name).options()


def get(name: str, **options: Any) -> MetricLoss:
    """Returns a new loss.

    Args:
        name: one of ``names()``.
        **options: its options, see ``options(name)``.

    Raises:
        ValueError: unknown ``name`` or option, or an option out of range.
    """
    loss_class = _loss_class(name)
    valid = loss_class.options()
    for option in options:
        if option not in valid:
            raise ValueError(f"`{option}` is not an option of loss {name}. It has: {', '.join(valid)}.")
    return loss_class(**options)
