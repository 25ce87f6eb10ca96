"""Assigns the weights of a file to a network: every one of them, or none and an error that says why."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable, Optional

import numpy as np
import tensorflow as tf

# How many problems, or weights that are not finite, an error lists.
_LISTED = 10


@dataclass(frozen=True)
class WeightSpec:
    """What a file must hold for one variable.

    Attributes:
        variable: What the weight is assigned to.
        shape: Its shape in the file.
        to_keras: Permutes the file's axes to the variable's.
    """

    variable: tf.Variable
    shape: tuple[int, ...]
    to_keras: Callable[[np.ndarray], np.ndarray] = np.asarray


def assign_weights(
    specs: Mapping[str, WeightSpec],
    shapes: Mapping[str, Any],
    read: Callable[[str], np.ndarray],
    *,
    path: str,
    content: str,
    ignore: Callable[[str], bool],
) -> None:
    """Assigns every weight. Nothing is assigned before every weight has been read and checked.

    Args:
        specs: The weights of the model, by their names in the file.
        shapes: Shapes of what the file holds, by name.
        read: Returns one weight of the file.
        path: Of the file, for messages.
        content: What the file has to be, for messages, such as "a checkpoint of InceptionV1".
        ignore: Whether a name that is not in ``specs`` may be ignored.

    Raises:
        ValueError: If the file lacks a weight, holds one in another shape, one that does not belong to the
            model, or one that is not finite.
    """
    problems = [f"{name} is missing" for name in specs if name not in shapes]
    for name, spec in specs.items():
        if name in shapes and tuple(shapes[name]) != spec.shape:
            problems.append(f"{name} has shape {list(shapes[name])} instead of {list(spec.shape)}")
    for name in sorted(shapes):
        if name not in specs and not ignore(name):
            problems.append(f"{name} does not belong to the model")
    if problems:
        raise ValueError(
            f"`pretrained` must be {content} with its {len(specs)} weights, got {str(path)!r} with "
            f"{len(shapes)} variables: {_listed(problems)}."
        )
    values = {name: read(name) for name in specs}
    _refuse_non_finite("pretrained", path, values)
    for name, spec in specs.items():
        spec.variable.assign(spec.to_keras(values[name]))


def assign_arrays(
    specs: Mapping[str, WeightSpec],
    arrays: Mapping[str, np.ndarray],
    *,
    path: str,
    content: str,
    ignored: Optional[re.Pattern] = None,
) -> None:
    """Assigns every weight as `assign_weights` does, from arrays that were read already.

    Args:
        specs: The weights of the model, by their names in the file.
        arrays: What the file holds, by name.
        path: Of the file, for messages.
        content: What the file has to be, for messages.
        ignored: Matches part of the names that may be ignored; None ignores none.
    """
    assign_weights(
        specs,
        {name: value.shape for name, value in arrays.items()},
        arrays.__getitem__,
        path=path,
        content=content,
        ignore=lambda name: ignored is not None and bool(ignored.search(name)),
    )


def check_finite(model: tf.keras.Model, argument: str, path: str) -> None:
    """Checks the weights that a model was loaded with: a ReLU can hide from the loss that one is not finite.

    Args:
        model: A built Keras model.
        argument: Name of the argument that gave the file, for the message.
        path: Of the file.

    Raises:
        ValueError: If a weight is NaN or infinite; names the file and the variable.
    """
    # The tables of lookup layers are among `weights` too, and are no variables.
    variables = [weight for weight in model.weights if isinstance(weight, tf.Variable)]
    floating = {variable.name: variable for variable in variables if variable.dtype.is_floating}
    _refuse_non_finite(argument, path, {name: variable.numpy() for name, variable in floating.items()})


def _refuse_non_finite(argument: str, path: str, values: Mapping[str, np.ndarray]) -> None:
    counts = {name: np.size(value) - np.count_nonzero(np.isfinite(value)) for name, value in values.items()}
    problems = [f"{count} of {np.size(values[name]):,} in {name}" for name, count in counts.items() if count]
    if problems:
        raise ValueError(
            f"`{argument}` must have finite weights, got {str(path)!r}, where these are NaN or infinite: "
            f"{_listed(problems)}. Save it again from a training step before that, or use another file."
        )


def _listed(problems: list[str]) -> str:
    more = f"; and {len(problems) - _LISTED} more" if len(problems) > _LISTED else ""
    return "; ".join(problems[:_LISTED]) + more


def variables_by_name(model: tf.keras.Model, words: Mapping[str, str]) -> dict[tuple[str, str], tf.Variable]:
    """Returns the model's variables by layer name and by the published word for the kind of weight.

    Args:
        model: A functional model of layers that own their variables.
        words: Published word of each of Keras's (kernel, moving_mean).
    """
    return {
        (layer.name, words[variable.name.rsplit("/", 1)[-1].split(":")[0]]): variable
        for layer in model.layers
        for variable in layer.weights
    }


def outputs_first_spec(variable: tf.Variable, bgr_input: bool) -> WeightSpec:
    """Returns the spec of a weight whose kernels are published as [out, in, height, width].

    Args:
        variable: Keras's, a kernel [height, width, in, out], or [height, width, in, 1] by depth; or a vector.
        bgr_input: Whether the published kernel takes BGR; the variable takes RGB.
    """
    if len(variable.shape) != 4:
        return WeightSpec(variable, tuple(variable.shape))
    height, width, inputs, outputs = variable.shape
    if "depthwise_kernel" in variable.name:
        return WeightSpec(
            variable, (inputs, outputs, height, width), lambda kernel: kernel.transpose(2, 3, 0, 1)
        )
    order = slice(None, None, -1 if bgr_input else 1)
    return WeightSpec(
        variable, (outputs, inputs, height, width), lambda kernel: kernel.transpose(2, 3, 1, 0)[:, :, order]
    )
