"""Reads weights that others published, and refuses every file that is not wholly what it should be."""

from __future__ import annotations

import re

import numpy as np
import tensorflow as tf

# TF-Slim's names of what Keras layers call kernel, bias, beta and so on.
_SLIM_WEIGHTS = {
    "kernel": "weights",
    "bias": "biases",
    "beta": "beta",
    "gamma": "gamma",
    "moving_mean": "moving_mean",
    "moving_variance": "moving_variance",
}
# What a checkpoint of a training run holds besides the weights: classifiers, averages, optimiser slots.
_SLIM_EXTRAS = re.compile(
    r"/(Logits|AuxLogits|Predictions)/|/(ExponentialMovingAverage|RMSProp|RMSProp_1|Momentum|Adam|Adam_1)$"
)
_LISTED = 10
# TensorFlow's reader reports damage by any of these; a short data file, for one, by IndexError.
_UNREADABLE = (tf.errors.OpError, IndexError, RuntimeError, ValueError)


def load_slim_checkpoint(model: tf.keras.Model, path: str, scope: str) -> None:
    """Copies a TF-Slim checkpoint into ``model``: every weight of it, or none and an error.

    The weight ``w`` of the layer "a.b" is read from "scope/a/b/w", under TF-Slim's name for ``w``.
    Classifiers, the step counter, moving averages and optimiser slots of the checkpoint are left out, and so
    is everything outside ``scope``. Any other variable under ``scope`` means another network.

    Args:
        model: The network, with layer names that follow TF-Slim's scopes, "." for "/".
        path: A checkpoint of TensorFlow's first format (one file) or second (the prefix before ".index").
        scope: First part of the variables' names, such as "InceptionV1".

    Raises:
        ValueError: If the file cannot be read, lacks a weight, holds one in another shape, one that the model
            has no place for, or one that is not finite. Says which. The model is unchanged then.
    """
    reader = _open(path)
    expected = _slim_names(model, scope)
    _check_names(path, expected, reader.get_variable_to_shape_map(), scope)
    values = {name: _read(reader, name, path) for name in expected}
    for name, variable in expected.items():
        variable.assign(values[name])


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
        value = reader.get_tensor(name)
    except _UNREADABLE as error:
        raise ValueError(f"`pretrained` must be a complete checkpoint, got {path!r}: {error}") from error
    if not np.all(np.isfinite(value)):
        raise ValueError(f"`pretrained` must hold finite weights, got {path!r}, in which {name} is not.")
    return value


def _slim_names(model: tf.keras.Model, scope: str) -> dict[str, tf.Variable]:
    names = {}
    for layer in model.layers:
        for variable in layer.weights:
            weight = variable.name.rsplit("/", 1)[-1].split(":")[0]
            names[f"{scope}/{layer.name.replace('.', '/')}/{_SLIM_WEIGHTS[weight]}"] = variable
    return names


def _check_names(path: str, expected: dict, shapes: dict[str, list[int]], scope: str) -> None:
    problems = [f"{name} is missing" for name in expected if name not in shapes]
    for name, variable in expected.items():
        if name in shapes and list(variable.shape) != list(shapes[name]):
            problems.append(f"{name} has shape {list(shapes[name])} instead of {list(variable.shape)}")
    for name in sorted(shapes):
        if name.startswith(f"{scope}/") and name not in expected and not _SLIM_EXTRAS.search(name):
            problems.append(f"{name} has no place in the model")
    if problems:
        shown = "; ".join(problems[:_LISTED])
        more = f"; and {len(problems) - _LISTED} more" if len(problems) > _LISTED else ""
        raise ValueError(
            f"`pretrained` must be a checkpoint of {scope} with its {len(expected)} weights, got {path!r} "
            f"with {len(shapes)} variables: {shown}{more}."
        )
