"""Backbones of KerasCV by the name of a preset, with the preset's weights where it has any.

Shapes: B images, H x W their height and width in pixels, C channels.

    images [B, H, W, 3], values 0..255  ->  feature map [B, h, w, C]
"""

from __future__ import annotations

import functools
import json
import os
from typing import Optional

import tensorflow as tf

from profs_tf.backbones.base import Backbone, InputShape
from profs_tf.backbones.keras_model import check_network, refuse_options
from profs_tf.backbones.seeding import seed_kernels


def from_preset(preset: str) -> Backbone:
    """Returns the backbone of a KerasCV preset, with KerasCV's scaling of 0..255 inside.

    Presets with KerasCV's own names are downloaded from Kaggle; a folder is read as it is. The preset decides
    whether there are weights; the seed draws them where there are none.

    Building it raises ValueError if KerasCV has no such preset or cannot get it; the network cannot take
    such images or scale them itself; or an option of named backbones is given.

    Args:
        preset: A name such as "resnet50_imagenet", or a preset's folder.
    """
    build = functools.partial(_build, preset)
    return Backbone(
        name=f"keras_cv:{preset}",
        build=build,
        own_weights="the KerasCV preset's, if it has any; its page names data and license",
        brings_weights=functools.partial(_has_weights, preset),
        load=lambda: build((None, None, 3), None, None, None),
    )


def _build(
    preset: str,
    input_shape: InputShape,
    pretrained: Optional[str],
    batch_norm_momentum: Optional[float],
    seed: Optional[int],
) -> tf.keras.Model:
    refuse_options(preset, pretrained=pretrained, batch_norm_momentum=batch_norm_momentum)
    # Importing it takes seconds, and most runs do not need it.
    import keras_cv

    has_weights = _has_weights(preset)
    try:
        backbone = keras_cv.models.Backbone.from_preset(
            preset, load_weights=has_weights, input_shape=tuple(input_shape), include_rescaling=True
        )
    except (ValueError, TypeError, OSError, ImportError) as error:
        raise ValueError(
            "`backbone` must be keras_cv: and a preset that KerasCV can load and that scales images itself, "
            f"got {preset!r}: {error}"
        ) from error
    # A plain model of the same layers: KerasCV's class is not needed where the embedder is loaded.
    network = tf.keras.Model(backbone.inputs, backbone.outputs, name=backbone.name)
    check_network(network, preset, tuple(input_shape))
    if seed is not None and not has_weights:
        seed_kernels(network, seed)
    return network


def _has_weights(preset: str) -> bool:
    import keras_cv

    backbone = keras_cv.models.Backbone
    if preset in backbone.presets:
        return preset in backbone.presets_with_weights
    config = os.path.join(preset, "config.json")
    if not os.path.isfile(config):
        return True
    with open(config, encoding="utf-8") as file:
        return json.load(file).get("weights") is not None
