"""One HDF5 format for the weights of any backbone, whatever format they were published in.

An archive is what ``save_weights`` of Keras writes, so that ``load_weights`` of Keras reads it, with one more
data set: "manifest", a JSON text with the network's name, the source's file name and SHA-256, the scaling of
images inside the network, and name and shape of every weight with one SHA-256 over them all.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable

import h5py
import numpy as np
import tensorflow as tf

from profs_tf.backbones.weights.assign import WeightSpec, assign_arrays

_MANIFEST = "manifest"
_FORMAT = "profs_tf backbone weights, version 1"


def is_archive(path: str) -> bool:
    """Returns whether ``path`` is a file that `save_archive` wrote, by its content.

    Raises:
        ValueError: If it is an HDF5 file that is cut short.
    """
    if not (os.path.isfile(path) and h5py.is_hdf5(path)):
        return False
    try:
        with h5py.File(path, "r") as file:
            return _MANIFEST in file
    except OSError as error:
        raise ValueError(f"`pretrained` must be a complete HDF5 file, got {str(path)!r}: {error}") from error


def save_archive(model: tf.keras.Model, path: str, source: list[str]) -> dict:
    """Writes the weights of a backbone and their manifest.

    Args:
        model: A backbone of this package with the weights of ``source``.
        path: Of the new file, which ends in ".h5". It appears only when it is complete.
        source: The files that the weights were read from.

    Returns:
        The manifest.
    """
    manifest = {
        "format": _FORMAT,
        "backbone": model.name,
        "preprocessing": _preprocessing(model),
        "source": {os.path.basename(name): _file_sha256(name) for name in source},
        "weights": [
            {"name": name, "shape": list(variable.shape)} for name, variable in _variables(model).items()
        ],
        "sha256": _sha256((name, variable.numpy()) for name, variable in _variables(model).items()),
    }
    partial = f"{path}.partial.h5"
    try:
        model.save_weights(partial)
        with h5py.File(partial, "a") as file:
            file[_MANIFEST] = json.dumps(manifest, indent=1)
        os.replace(partial, path)
    finally:
        if os.path.exists(partial):
            os.remove(partial)
    return manifest


def read_manifest(path: str) -> dict:
    """Returns the manifest of an archive.

    Raises:
        ValueError: If the file cannot be read or its manifest is of another version.
    """
    try:
        with h5py.File(path, "r") as file:
            manifest = json.loads(file[_MANIFEST].asstr()[()])
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"`pretrained` must hold a manifest, got {str(path)!r}: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != _FORMAT:
        raise ValueError(
            f"`pretrained` must be {_FORMAT}, got {str(path)!r} of another version. Convert it again."
        )
    return manifest


def load_archive(model: tf.keras.Model, path: str) -> None:
    """Copies an archive into ``model``: every weight of it, or none and an error.

    Raises:
        ValueError: If the file is damaged, is of another backbone, or does not hold exactly the weights of
            ``model`` with the SHA-256 of its manifest. The model is unchanged.
    """
    manifest = read_manifest(path)
    if manifest["backbone"] != model.name:
        raise ValueError(
            f"`pretrained` must hold weights of {model.name}, got {str(path)!r} of {manifest['backbone']}."
        )
    names = [weight["name"] for weight in manifest["weights"]]
    try:
        with h5py.File(path, "r") as file:
            values = {name: np.asarray(file[_member(name)]) for name in names}
    except (OSError, KeyError, ValueError) as error:
        raise ValueError(f"`pretrained` must be a complete file, got {str(path)!r}: {error}") from error
    if _sha256(values.items()) != manifest["sha256"]:
        raise ValueError(
            f"`pretrained` must hold the weights that its manifest names, got {str(path)!r} with another "
            "SHA-256. The file is damaged or was changed; convert the source again."
        )
    specs = {
        name: WeightSpec(variable, tuple(variable.shape)) for name, variable in _variables(model).items()
    }
    assign_arrays(specs, values, path=path, content=f"a file of {model.name}")


def _variables(model: tf.keras.Model) -> dict[str, tf.Variable]:
    return {variable.name.split(":")[0]: variable for layer in model.layers for variable in layer.weights}


def _member(name: str) -> str:
    """Returns where Keras stores the weight "layer/kernel"."""
    return f"{name.rsplit('/', 1)[0]}/{name}:0"


def _preprocessing(model: tf.keras.Model) -> dict:
    rescale = model.get_layer("rescale").get_config()
    return {"images": "RGB, values 0..255", "scale": rescale["scale"], "offset": rescale["offset"]}


def _sha256(weights: Iterable[tuple[str, np.ndarray]]) -> str:
    digest = hashlib.sha256()
    for name, value in weights:
        digest.update(f"{name} {list(value.shape)}\n".encode())
        digest.update(np.ascontiguousarray(value, "<f4").tobytes())
    return digest.hexdigest()


def _file_sha256(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()
