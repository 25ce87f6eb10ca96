"""Backbones of KerasCV by the name of a preset, with the preset's weights where it has any.

Shapes: B images, H x W their height and width in pixels, C channels.

    images [B, H, W, 3], values 0..255  ->  feature map [B, h, w, C]
"""

from __future__ import annotations

import json
import os
from typing import Optional

import tensorflow as tf

from profs_tf.backbones.keras_model import check_network, refuse_options
from profs_tf.backbones.seeding import seed_kernels


def keras_cv_preset(
    preset: str,
    input_shape: tuple[Optional[int], Optional[int], int] = (None, None, 3),
    *,
    pretrained: Optional[str] = None,
    batch_norm_momentum: Optional[float] = None,
    seed: Optional[int] = None,
) -> tf.keras.Model:
    """Builds the backbone of a KerasCV preset, with KerasCV's scaling of 0..255 inside.

    Presets with KerasCV's own names are downloaded from Kaggle; a folder is read as it is.

    Args:
        preset: A name such as "resnet50_imagenet", or a preset's folder.
        input_shape: (height, width, 3); height and width may be None where the network allows it.
        pretrained: Must be None: the preset's name says whether it has weights.
        batch_norm_momentum: Must be None: layers keep KerasCV's.
        seed: Makes the initial weights of a preset without weights a pure function of this whole number.

    Raises:
        ValueError: If KerasCV has no such preset or cannot get it; the network cannot take such images or
            scale them itself; or an option is given that must be None.
    """
    refuse_options(preset, pretrained=pretrained, batch_norm_momentum=batch_norm_momentum)
    # Here, since it takes seconds and most runs do without.
    import keras_cv

    has_weights = _has_weights(preset, keras_cv.models.Backbone)
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


def _has_weights(preset: str, backbone: type[tf.keras.Model]) -> bool:
    if preset in backbone.presets:
        return preset in backbone.presets_with_weights
    config = os.path.join(preset, "config.json")
    if not os.path.isfile(config):
        return True
    with open(config, encoding="utf-8") as file:
        return json.load(file).get("weights") is not None
