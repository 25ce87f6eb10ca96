"""Data sets: each is read into two ``ImageList``, split by class into one that trains and one that tests."""

from __future__ import annotations

from profs_tf.datasets.emoji import load_emoji
from profs_tf.datasets.image_list import ImageList

__all__ = ["ImageList", "load"]

_LOADERS = {"emoji": load_emoji}


def load(name: str) -> tuple:
    """Returns (train, test) of a data set, two ``ImageList`` without a class in common.

    Args:
        name: "emoji".

    Raises:
        ValueError: if the name is unknown; the message lists the valid ones.
    """
    if name not in _LOADERS:
        raise ValueError(f"`name` must be one of {', '.join(_LOADERS)}, got {name!r}.")
    return _LOADERS[name]()
