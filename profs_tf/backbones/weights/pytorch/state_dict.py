"""Reads a PyTorch state dict, and copies it into a Keras network whose layers carry its modules' names."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any, Callable, Optional

import numpy as np
import tensorflow as tf

from profs_tf.backbones.weights.assign import assign_arrays, outputs_first_spec, variables_by_name
from profs_tf.backbones.weights.pytorch import legacy_format, zip_format
from profs_tf.backbones.weights.pytorch.unpickler import InvalidStateDictError
from profs_tf.backbones.weights.safetensors import is_safetensors, read_safetensors

_READERS = {
    zip_format.MAGIC: zip_format.read_zip,
    legacy_format.MAGIC: legacy_format.read_legacy,
}
# Bytes of a file that tell its format.
_START = 16
_WORDS = {
    "kernel": "weight",
    "depthwise_kernel": "weight",
    "bias": "bias",
    "gamma": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
}
# Batch normalization without momentum would need the first; the second is the classifier by its usual names.
_IGNORED = re.compile(r"\.num_batches_tracked$|^(last_linear|_?fc)\.(weight|bias)$")


def load_state_dict(
    model: tf.keras.Model,
    path: str,
    bgr_input: Optional[str] = None,
    module_name: Callable[[str], str] = str,
) -> None:
    """Copies a PyTorch state dict into ``model``: every weight of it, or none and an error.

    The kernels' axes [out, in, height, width] become Keras's [height, width, in, out]. Vectors of batch
    normalization may be [1, C], as in an early release of BN-Inception. ``num_batches_tracked`` and the
    classifier (``last_linear``, ``fc``, ``_fc``) are ignored; any other tensor means another network.

    Args:
        model: The network.
        path: What ``torch.save(module.state_dict(), path)`` wrote, see `read_tensors`.
        bgr_input: Name of the convolution that expects BGR in the file; its kernel is reversed to take RGB.
            None: all take RGB.
        module_name: From a layer's name to its PyTorch module's, where they differ.

    Raises:
        ValueError: If the file does not hold a state dict, lacks a weight, holds one in another shape, one
            that does not belong to the model, or one that is not finite. The message lists them. The model
            is unchanged.
    """
    tensors = {name: _vector(value) for name, value in read_tensors(path).items()}
    specs = {
        f"{module_name(layer)}.{word}": outputs_first_spec(variable, layer == bgr_input)
        for (layer, word), variable in variables_by_name(model, _WORDS).items()
    }
    content = f"a state dict of {model.name}"
    assign_arrays(specs, tensors, path=path, content=content, ignored=_IGNORED)


def _vector(value: np.ndarray) -> np.ndarray:
    return value[0] if value.ndim == 2 and len(value) == 1 else value


def read_tensors(path: str) -> dict[str, np.ndarray]:
    """Returns the tensors of a state dict by name.

    Args:
        path: A file that ``torch.save(model.state_dict(), path)`` wrote, in the zip format of PyTorch 1.6 and
            later or in the format before; or a .safetensors file.

    Returns:
        One array for each tensor, with the tensor's shape. Takes as much memory as the file has bytes.

    Raises:
        ValueError: If there is no such file; it is damaged or of another kind; its pickle asks for anything
            but tensors, which is not run; or it holds anything but tensors by name.
    """
    try:
        with open(path, "rb") as file:
            start = file.read(_START)
    except OSError as error:
        raise ValueError(
            f"`pretrained` must be the path of a PyTorch file, got {str(path)!r}: {error}"
        ) from error
    if is_safetensors(start):
        try:
            return read_safetensors(path)
        except (ValueError, OSError) as error:
            raise ValueError(
                f"`pretrained` must be a complete .safetensors file, got {str(path)!r}: {error}."
            ) from error
    reader = next((read for magic, read in _READERS.items() if start.startswith(magic)), None)
    if reader is None:
        raise ValueError(
            f"`pretrained` must be a file written by torch.save, or a .safetensors file, got {str(path)!r}."
        )
    try:
        content = reader(path)
    except InvalidStateDictError as error:
        raise ValueError(f"`pretrained` must be a PyTorch state dict, got {str(path)!r}: {error}") from error
    # RuntimeError: of an encrypted member.
    except (zipfile.BadZipFile, EOFError, OSError, RuntimeError, zlib.error) as error:
        raise ValueError(
            f"`pretrained` must be a complete PyTorch file, got {str(path)!r}, damaged or cut short: {error}"
        ) from error
    return _tensors_by_name(content, path)


def _tensors_by_name(content: Any, path: str) -> dict[str, np.ndarray]:
    if not isinstance(content, Mapping):
        raise ValueError(
            f"`pretrained` must be a PyTorch state dict, got {str(path)!r}, which holds a "
            f"{type(content).__name__}. Save model.state_dict()."
        )
    for name, value in content.items():
        if not isinstance(name, str) or not isinstance(value, np.ndarray):
            raise ValueError(
                f"`pretrained` must be a PyTorch state dict of tensors by name, got {str(path)!r}, in which "
                f"{name!r} is a {type(value).__name__}. Save model.state_dict() alone."
            )
    return dict(content)
