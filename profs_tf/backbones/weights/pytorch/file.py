"""Reads the tensors of a PyTorch file, of either format, without PyTorch and without running its code."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from profs_tf.backbones.weights.pytorch import legacy_format as legacy_state_dict
from profs_tf.backbones.weights.pytorch import zip_format as tensor_archive
from profs_tf.backbones.weights.pytorch.unpickler import RefusedError

_READERS = {
    tensor_archive.START: tensor_archive.read_archive,
    legacy_state_dict.START: legacy_state_dict.read_legacy,
}


def read_tensors(path: str) -> dict[str, np.ndarray]:
    """Returns the tensors of a state dict by name.

    Args:
        path: A file that ``torch.save(model.state_dict(), path)`` wrote, in the zip format of PyTorch 1.6 and
            later or in the one before.

    Returns:
        One array for each tensor, with the tensor's shape. Costs as much memory as the file has bytes.

    Raises:
        ValueError: If there is no such file; it is damaged or of another kind; its pickle asks for anything
            but tensors, which is not run; or it holds anything but tensors by name.
    """
    try:
        with open(path, "rb") as file:
            start = file.read(max(map(len, _READERS)))
    except OSError as error:
        raise ValueError(
            f"`pretrained` must be the path of a PyTorch file, got {str(path)!r}: {error}"
        ) from error
    reader = next((found for mark, found in _READERS.items() if start.startswith(mark)), None)
    if reader is None:
        raise ValueError(f"`pretrained` must be a file written by torch.save, got {str(path)!r}.")
    try:
        content = reader(path)
    except RefusedError as error:
        raise ValueError(f"`pretrained` must be a PyTorch state dict, got {str(path)!r}: {error}") from error
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, zlib.error) as error:
        raise ValueError(
            f"`pretrained` must be a complete PyTorch file, got {str(path)!r}, damaged or cut short: {error}"
        ) from error
    return _state_dict(content, path)


def _state_dict(content: Any, path: str) -> dict[str, np.ndarray]:
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
