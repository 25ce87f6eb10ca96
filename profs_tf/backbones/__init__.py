"""Convolutional networks from images to feature maps, by name.

Every backbone is a function ``build(input_shape, *, pretrained, batch_norm_momentum, seed)`` that returns a
model of stock Keras layers from RGB images with values 0..255 to the feature map before global pooling. It
scales the values itself, so that training, evaluation and the exported model cannot disagree about
preprocessing.

Four are of the Inception family and differ: `googlenet` is the publication's, without batch normalisation;
`inception_v1` and `inception_v2` are TF-Slim's; `bn_inception` is Caffe's and PyTorch's. None takes another's
weights. Besides the names there are "keras_cv:PRESET" and the path of any Keras model.
"""

from __future__ import annotations

import functools
from typing import Callable

import tensorflow as tf

from profs_tf.backbones.bn_inception import bn_inception
from profs_tf.backbones.conv4 import conv4
from profs_tf.backbones.googlenet import googlenet
from profs_tf.backbones.inception_v1 import inception_v1
from profs_tf.backbones.inception_v2 import inception_v2
from profs_tf.backbones.keras_cv_preset import keras_cv_preset
from profs_tf.backbones.keras_model import is_keras_model, keras_model
from profs_tf.backbones.resnet50 import resnet50

_BACKBONES = {
    function.__name__: function
    for function in (bn_inception, conv4, googlenet, inception_v1, inception_v2, resnet50)
}

_KERAS_CV = "keras_cv:"

__all__ = ["bn_inception", "conv4", "get", "googlenet", "inception_v1", "inception_v2", "names", "resnet50"]


def names() -> list[str]:
    """Returns the names of the backbones, sorted."""
    return sorted(_BACKBONES)


def get(name: str) -> Callable[..., tf.keras.Model]:
    """Returns the function that builds the backbone ``name``.

    Args:
        name: One of `names`; "keras_cv:" and the name or folder of a KerasCV preset; or the path of a Keras
            model, a ``.keras`` or ``.h5`` file or a SavedModel folder.

    Raises:
        ValueError: If there is no such backbone; the message lists those there are.
    """
    if isinstance(name, str):
        if name in _BACKBONES:
            return _BACKBONES[name]
        if name.startswith(_KERAS_CV):
            return functools.partial(keras_cv_preset, name[len(_KERAS_CV) :])
        if is_keras_model(name):
            return functools.partial(keras_model, name)
    raise ValueError(
        f"`backbone` must be one of {', '.join(names())}, {_KERAS_CV}PRESET, the path of a Keras model, or a "
        f"Keras model, got {name!r}."
    )
