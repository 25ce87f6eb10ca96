"""Copies a PyTorch state dict into a Keras network whose layers carry the modules' names."""

from __future__ import annotations

import re

import numpy as np
import tensorflow as tf

from profs_tf.backbones.weights.assign import fill_from_arrays, outputs_first_slot, weights_by_name
from profs_tf.backbones.weights.pytorch.file import read_tensors

_WORDS = {
    "kernel": "weight",
    "bias": "bias",
    "gamma": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
}
# A count that averages without momentum would need, and the classifier, under either of its usual names.
_LEFT_OUT = re.compile(r"\.num_batches_tracked$|^(last_linear|fc)\.(weight|bias)$")


def load_state_dict(model: tf.keras.Model, path: str, blue_first: str) -> None:
    """Copies a PyTorch state dict into ``model``: every weight of it, or none and an error.

    The kernels' axes [out, in, height, width] become Keras's [height, width, in, out]. Vectors of batch
    normalisation may be [1, C], as an early release of BN-Inception has them. ``num_batches_tracked`` and the
    classifier (``last_linear``, ``fc``) are left out; any other tensor means another network.

    Args:
        model: The network; a layer has the name of its PyTorch module.
        path: What ``torch.save(module.state_dict(), path)`` wrote, see `read_tensors`.
        blue_first: Name of the convolution that expects BGR in the file; its kernel is turned to take RGB.

    Raises:
        ValueError: If the file is none of a state dict, lacks a weight, holds one in another shape, one that
            the model has no place for, or one that is not finite. Says which. The model is unchanged then.
    """
    tensors = {name: _vector(value) for name, value in read_tensors(path).items()}
    slots = {
        f"{layer}.{word}": outputs_first_slot(variable, layer == blue_first)
        for (layer, word), variable in weights_by_name(model, _WORDS).items()
    }
    content = f"a state dict of {model.name}"
    fill_from_arrays(slots, tensors, path=path, content=content, left_out=_LEFT_OUT)


def _vector(value: np.ndarray) -> np.ndarray:
    return value[0] if value.ndim == 2 and len(value) == 1 else value
