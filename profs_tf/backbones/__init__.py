"""Convolutional networks from images to feature maps, by name.

Every backbone is a function ``build(input_shape, *, pretrained, batch_norm_momentum, seed)`` that returns a
model of stock Keras layers from RGB images with values 0..255 to the feature map before global pooling. It
scales the values itself, so that training, evaluation and the exported model cannot disagree about
preprocessing.
"""

from __future__ import annotations

from typing import Callable

import tensorflow as tf

from profs_tf.backbones.bn_inception import bn_inception
from profs_tf.backbones.conv4 import conv4
from profs_tf.backbones.googlenet import googlenet
from profs_tf.backbones.inception_v1 import inception_v1
from profs_tf.backbones.inception_v2 import inception_v2
from profs_tf.backbones.resnet50 import resnet50

_BACKBONES = {
    function.__name__: function
    for function in (bn_inception, conv4, googlenet, inception_v1, inception_v2, resnet50)
}

__all__ = ["bn_inception", "conv4", "get", "googlenet", "inception_v1", "inception_v2", "names", "resnet50"]


def names() -> list[str]:
    """Returns the names of the backbones, sorted."""
    return sorted(_BACKBONES)


def get(name: str) -> Callable[..., tf.keras.Model]:
    """Returns the function that builds the backbone ``name``.

    Raises:
        ValueError: If there is no such backbone; the message lists those there are.
    """
    if not isinstance(name, str) or name not in _BACKBONES:
        raise ValueError(f"`backbone` must be one of {', '.join(names())} or a Keras model, got {name!r}.")
    return _BACKBONES[name]
