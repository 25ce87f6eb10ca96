"""Copies published weights into a network: every one of them, or none and an error that says why."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable, Optional

import numpy as np
import tensorflow as tf

_LISTED = 10


@dataclass(frozen=True)
class Slot:
    """The place of one published weight.

    Attributes:
        variable: What it is copied to.
        shape: Its shape in the published file.
        to_keras: From the published order of the axes to the variable's.
    """

    variable: tf.Variable
    shape: tuple[int, ...]
    to_keras: Callable[[np.ndarray], np.ndarray] = np.asarray


def fill(
    slots: Mapping[str, Slot],
    shapes: Mapping[str, Any],
    read: Callable[[str], np.ndarray],
    *,
    path: str,
    content: str,
    leave_out: Callable[[str], bool],
) -> None:
    """Assigns every slot its weight. Nothing is assigned before every weight has been read and checked.

    Args:
        slots: By the published name.
        shapes: What the file holds, by name.
        read: Returns one weight of the file.
        path: Of the file, for messages.
        content: What the file has to be, for messages, such as "a checkpoint of InceptionV1".
        leave_out: Whether a name without a slot may be left out.

    Raises:
        ValueError: If the file lacks a weight, holds one in another shape, one that has no slot, or one that
            is not finite.
    """
    problems = [f"{name} is missing" for name in slots if name not in shapes]
    for name, slot in slots.items():
        if name in shapes and tuple(shapes[name]) != slot.shape:
            problems.append(f"{name} has shape {list(shapes[name])} instead of {list(slot.shape)}")
    for name in sorted(shapes):
        if name not in slots and not leave_out(name):
            problems.append(f"{name} has no place in the model")
    if problems:
        shown = "; ".join(problems[:_LISTED])
        more = f"; and {len(problems) - _LISTED} more" if len(problems) > _LISTED else ""
        raise ValueError(
            f"`pretrained` must be {content} with its {len(slots)} weights, got {str(path)!r} with "
            f"{len(shapes)} variables: {shown}{more}."
        )
    values = {name: _finite(name, read(name), path) for name in slots}
    for name, slot in slots.items():
        slot.variable.assign(slot.to_keras(values[name]))


def fill_from_arrays(
    slots: Mapping[str, Slot],
    arrays: Mapping[str, np.ndarray],
    *,
    path: str,
    content: str,
    left_out: Optional[re.Pattern] = None,
) -> None:
    """Assigns every slot its weight as `fill` does, from what a file held.

    Args:
        slots: By the published name.
        arrays: What the file holds, by name.
        path: Of the file, for messages.
        content: What the file has to be, for messages.
        left_out: Found in the names that may be left out; None for no name.
    """
    fill(
        slots,
        {name: value.shape for name, value in arrays.items()},
        arrays.__getitem__,
        path=path,
        content=content,
        leave_out=lambda name: left_out is not None and bool(left_out.search(name)),
    )


def _finite(name: str, value: np.ndarray, path: str) -> np.ndarray:
    if not np.all(np.isfinite(value)):
        raise ValueError(f"`pretrained` must hold finite weights, got {str(path)!r}, in which {name} is not.")
    return value


def weights_by_name(model: tf.keras.Model, words: Mapping[str, str]) -> dict[tuple[str, str], tf.Variable]:
    """Returns the model's variables by layer name and by the published word for the kind of weight.

    Args:
        model: A functional model of layers that own their variables.
        words: From Keras's word (kernel, moving_mean) to the published one.
    """
    found = {}
    for layer in model.layers:
        for variable in layer.weights:
            found[layer.name, words[variable.name.rsplit("/", 1)[-1].split(":")[0]]] = variable
    return found


def outputs_first_slot(variable: tf.Variable, blue_first: bool) -> Slot:
    """Returns the place of a weight whose kernels are published as [out, in, height, width].

    Args:
        variable: Keras's, a kernel [height, width, in, out] or a vector.
        blue_first: Whether the published kernel takes BGR; the variable takes RGB.
    """
    if len(variable.shape) != 4:
        return Slot(variable, tuple(variable.shape))
    height, width, inputs, outputs = variable.shape
    order = slice(None, None, -1 if blue_first else 1)
    return Slot(
        variable, (outputs, inputs, height, width), lambda kernel: kernel.transpose(2, 3, 1, 0)[:, :, order]
    )
