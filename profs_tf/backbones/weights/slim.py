"""Copies TF-Slim's published checkpoints into a Keras network; incomplete or foreign files are refused."""

from __future__ import annotations

import re

import numpy as np
import tensorflow as tf

from profs_tf.backbones.weights.assign import WeightSpec, assign_weights, variables_by_name

# TF-Slim's names of what Keras layers call kernel, bias, beta and so on.
_SLIM_WEIGHTS = {
    "kernel": "weights",
    "depthwise_kernel": "depthwise_weights",
    "pointwise_kernel": "pointwise_weights",
    "bias": "biases",
    "beta": "beta",
    "gamma": "gamma",
    "moving_mean": "moving_mean",
    "moving_variance": "moving_variance",
}
# What a checkpoint of a training run holds besides the weights: classifiers, averages, optimizer slots.
_SLIM_EXTRAS = re.compile(
    r"/(Logits|AuxLogits|Predictions)/|/(ExponentialMovingAverage|RMSProp|RMSProp_1|Momentum|Adam|Adam_1)$"
)
# TensorFlow's reader reports damage by any of these; a short data file, for one, by IndexError.
_UNREADABLE = (tf.errors.OpError, IndexError, RuntimeError, ValueError)


def load_slim_checkpoint(model: tf.keras.Model, path: str, scope: str) -> None:
    """Copies a TF-Slim checkpoint into ``model``: every weight of it, or none and an error.

    The weight ``w`` of the layer "a.b" is read from "scope/a/b/w", under TF-Slim's name for ``w``.
    Classifiers, the step counter, moving averages and optimizer slots of the checkpoint are ignored, and so
    is everything outside ``scope``. Any other variable under ``scope`` means another network.

    Args:
        model: The network, with layer names that follow TF-Slim's scopes, "." for "/".
        path: A checkpoint of TensorFlow's first format (one file) or second (the prefix before ".index").
        scope: First part of the variables' names, such as "InceptionV1".

    Raises:
        ValueError: If the file cannot be read, lacks a weight, holds one in another shape, one that does not
            belong to the model, or one that is not finite. The message lists them. The model is unchanged.
    """
    reader = _open(path)
    specs = {
        f"{scope}/{layer.replace('.', '/')}/{weight}": WeightSpec(variable, tuple(variable.shape))
        for (layer, weight), variable in variables_by_name(model, _SLIM_WEIGHTS).items()
    }
    assign_weights(
        specs,
        reader.get_variable_to_shape_map(),
        lambda name: _read(reader, name, path),
        path=path,
        content=f"a checkpoint of {scope}",
        ignore=lambda name: not name.startswith(f"{scope}/") or bool(_SLIM_EXTRAS.search(name)),
    )


def _open(path: str) -> tf.train.CheckpointReader:
    try:
        return tf.train.load_checkpoint(path)
    except _UNREADABLE as error:
        raise ValueError(
            "`pretrained` must be the path of a TensorFlow checkpoint (one file, or the prefix of .index and "
            f".data files), got {path!r}: {error}"
        ) from error


def _read(reader: tf.train.CheckpointReader, name: str, path: str) -> np.ndarray:
    try:
        return reader.get_tensor(name)
    except _UNREADABLE as error:
        raise ValueError(f"`pretrained` must be a complete checkpoint, got {path!r}: {error}") from error
