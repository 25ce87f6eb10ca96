"""Any Keras model in a file as a backbone: a network that was trained elsewhere, to be fine-tuned.

Shapes: B images, H x W their height and width in pixels, C channels or features.

    images [B, H, W, 3], values 0..255  ->  feature map [B, h, w, C] or features [B, C]
"""

from __future__ import annotations

import functools
import json
import os
import zipfile
from typing import Any, Optional

import h5py
import tensorflow as tf

from profs_tf.backbones.base import Backbone, InputShape
from profs_tf.utils.errors import first_line


def is_keras_model(path: str) -> bool:
    """Returns whether ``path`` is a SavedModel folder or a file that Keras may have written."""
    if os.path.isfile(path):
        return os.path.splitext(path)[1] in (".keras", ".h5", ".hdf5")
    return os.path.isfile(os.path.join(path, "saved_model.pb"))


def from_file(path: str) -> Backbone:
    """Returns the Keras model in a ``.keras`` or ``.h5`` file, or in a SavedModel folder that Keras wrote.

    The model keeps its weights, and scales its input itself: it is given RGB values 0..255. It is not
    compiled. Such files can hold code (Lambda layers): load only those whose origin you trust.

    Building it raises ValueError if Keras cannot load the file; the model does not map one input of images
    to one output of features; nothing of it can be trained; or an option of named backbones is given.
    """
    return Backbone(
        name=path,
        build=functools.partial(_build, path),
        own_weights=f"those of {path}, under the license of whoever trained it",
        brings_weights=lambda: True,
        load=lambda: _load(path),
    )


def _build(
    path: str,
    input_shape: InputShape,
    pretrained: Optional[str],
    batch_norm_momentum: Optional[float],
    seed: Optional[int],
) -> tf.keras.Model:
    del seed  # No weight is drawn.
    refuse_options(path, pretrained=pretrained, batch_norm_momentum=batch_norm_momentum)
    network = _load(path)
    check_network(network, path, input_shape)
    return network


def _load(path: str) -> tf.keras.Model:
    try:
        network = tf.keras.models.load_model(path, compile=False)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, tf.errors.OpError) as error:
        version = _keras_version(path)
        if version.startswith("3."):
            raise ValueError(
                f"`backbone` must be a model that Keras 2 saved, got {path!r}, saved by Keras {version}. "
                "Build its layers with tf_keras, copy the weights by `new.set_weights(old.get_weights())`, "
                "and save that."
            ) from error
        raise ValueError(
            f"`backbone` must be a file of a Keras model, got {path!r}: {first_line(error)}"
        ) from error
    if not isinstance(network, tf.keras.Model) or not network.inputs or not network.outputs:
        raise ValueError(
            f"`backbone` must be a model that Keras saved, with inputs of known shape, got {path!r}, which "
            f"holds a {type(network).__name__}."
        )
    check_network(network, path, (None, None, 3))
    return network


def _keras_version(path: str) -> str:
    """Returns the version of Keras that a `.keras` or HDF5 file names, or an empty text."""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                return str(json.loads(archive.read("metadata.json")).get("keras_version", ""))
        with h5py.File(path, "r") as file:
            return str(file.attrs.get("keras_version", ""))
    except (OSError, KeyError, ValueError, zipfile.BadZipFile):
        return ""


def refuse_options(name: str, **options: Any) -> None:
    """Raises ValueError for an option that a backbone with weights and layers of its own cannot take."""
    for option, value in options.items():
        if value is not None:
            raise ValueError(
                f"`{option}` must be None for the backbone {name!r}, which has its own weights and layers, "
                f"got {value!r}."
            )


def check_network(network: tf.keras.Model, name: str, input_shape: tuple[Optional[int], ...]) -> None:
    """Raises ValueError unless ``network`` maps images of ``input_shape`` to features, and can be trained."""
    inputs, outputs = (
        [tuple(tensor.shape) for tensor in tensors] for tensors in (network.inputs, network.outputs)
    )
    if len(inputs) != 1 or len(inputs[0]) != 4 or not _fits(inputs[0][1:], input_shape):
        raise ValueError(
            f"`backbone` must take images of shape {input_shape}, got {name!r} with inputs {inputs}. "
            "Set the size of the crop to fit."
        )
    if len(outputs) != 1 or len(outputs[0]) not in (2, 4):
        raise ValueError(
            f"`backbone` must return a feature map [B, h, w, C] or features [B, C], got {name!r} with "
            f"outputs {outputs}. Save tf.keras.Model(model.input, model.get_layer(NAME).output)."
        )
    if not network.trainable_variables:
        raise ValueError(
            f"`backbone` must have trainable weights, got {name!r} with none. Set model.trainable = True and "
            "save it again."
        )


def _fits(own: tuple[Optional[int], ...], wanted: tuple[Optional[int], ...]) -> bool:
    return own[-1] == 3 and all(
        left == right for left, right in zip(own, wanted) if left is not None and right is not None
    )
