"""Convolutional networks from images to feature maps, by name.

Every backbone is a `Backbone`: called with ``(input_shape, *, pretrained, batch_norm_momentum, seed)`` it
returns a model of stock Keras layers from RGB images with values 0..255 to the feature map before global
pooling. The model scales the values itself, so that training, evaluation and the exported embedder cannot
disagree about preprocessing.

Four are of the Inception family and differ: `googlenet` is the published network, without batch
normalization; `inception_v1` and `inception_v2` are TF-Slim's; `bn_inception` is Caffe's and PyTorch's. None
takes another's weights. Besides the names, "keras_cv:PRESET" and the path of any Keras model are backbones.
"""

from __future__ import annotations

import importlib
import os

from profs_tf.backbones.base import Backbone
from profs_tf.backbones.keras_cv_preset import from_preset
from profs_tf.backbones.keras_model import from_file, is_keras_model

# Each is defined in the file of its name: a new backbone is one more file, which defines a `Backbone` of that
# name, and one more line here.
_NAMES = (
    "bn_inception",
    "conv4",
    "googlenet",
    "inception_v1",
    "inception_v2",
    "resnet50",
)

# Networks of several sizes, and the file that defines them all.
_FAMILIES = {f"efficientnet_lite{variant}": "efficientnet_lite" for variant in range(3)}

_KERAS_CV = "keras_cv:"

__all__ = ["Backbone", "get", "names"]


def names() -> list[str]:
    """Returns the names of the backbones, sorted."""
    return sorted((*_NAMES, *_FAMILIES))


def get(name: str) -> Backbone:
    """Returns a backbone.

    Args:
        name: One of `names`; "keras_cv:" and the name or folder of a KerasCV preset; or the path of a Keras
            model: a ``.keras`` or ``.h5`` file or a SavedModel folder.

    Raises:
        ValueError: If there is no such backbone; the message lists the valid names.
    """
    if isinstance(name, str):
        if name in names():
            file = _FAMILIES.get(name, name)
            found: Backbone = getattr(importlib.import_module(f"profs_tf.backbones.{file}"), name)
            return found
        if name.startswith(_KERAS_CV):
            return from_preset(name[len(_KERAS_CV) :])
        path = os.path.expanduser(name)
        if is_keras_model(path):
            return from_file(path)
    raise ValueError(
        f"`backbone` must be one of {', '.join(names())}, {_KERAS_CV}PRESET, the path of a Keras model, or a "
        f"Keras model, got {name!r}."
    )
