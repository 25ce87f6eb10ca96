"""Reads Caffe's blobs from an .npz file into a Keras network whose layers carry the Caffe layers' names.

Reading a .caffemodel needs Caffe. Where it is installed, this writes the blobs:

    net = caffe.Net("deploy.prototxt", "bvlc_googlenet.caffemodel", caffe.TEST)
    blobs = {f"{layer}/{word}": blob.data for layer, found in net.params.items()
             for word, blob in zip(("weights", "biases"), found)}
    numpy.savez("googlenet.npz", **blobs)

so that "conv1/7x7_s2/weights" is [64, 3, 7, 7], outputs first, and "conv1/7x7_s2/biases" is [64].
"""

from __future__ import annotations

import math
import os
import re
import tokenize
import zipfile
import zlib
from io import BytesIO

import numpy as np
import tensorflow as tf

from profs_tf.backbones.weights.assign import assign_arrays, outputs_first_spec, variables_by_name

_WORDS = {"kernel": "weights", "bias": "biases"}
# The three classifiers of GoogLeNet, with the layers before the two auxiliary ones.
_IGNORED = re.compile(r"^loss[123]/")

_SUFFIX = ".npy"
# Weights hardly compress; zeros do so by a thousand, and would fill the memory from a small file.
_MAX_COMPRESSION = 20
_READ_HEADER = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def load_caffe_blobs(model: tf.keras.Model, path: str, bgr_input: str) -> None:
    """Copies Caffe's blobs into ``model``: every one of them, or none and an error.

    The weight ``w`` of the layer "a.b" is read from "a/b/w", kernels as [out, in, height, width]. Classifiers
    ("loss1/...", "loss2/...", "loss3/...") are ignored; any other array means another network.

    Args:
        model: The network, with Caffe's layer names, "." for "/".
        path: Of the .npz file.
        bgr_input: Name of the convolution that expects BGR in the file; its kernel is reversed to take
            RGB.

    Raises:
        ValueError: If the file does not hold arrays, lacks a weight, holds one in another shape, one that
            does not belong to the model, or one that is not finite. The message lists them. The model is
            unchanged.
    """
    arrays = _read(path)
    specs = {
        f"{layer.replace('.', '/')}/{word}": outputs_first_spec(variable, layer == bgr_input)
        for (layer, word), variable in variables_by_name(model, _WORDS).items()
    }
    content = f"Caffe's blobs of {model.name}"
    assign_arrays(specs, arrays, path=path, content=content, ignored=_IGNORED)


def _read(path: str) -> dict[str, np.ndarray]:
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(info.compress_size for info in archive.infolist()) > os.path.getsize(path):
                raise zipfile.BadZipFile("its members overlap")
            arrays = {info.filename: _member(archive, info) for info in archive.infolist()}
    # RuntimeError: an encrypted member, or an unknown compression. TokenError: a damaged header of an array.
    except (OSError, EOFError, ValueError, RuntimeError, tokenize.TokenError, zipfile.BadZipFile,
            zlib.error) as error:  # fmt: skip
        raise ValueError(
            f"`pretrained` must be a complete .npz file of Caffe's blobs, got {str(path)!r}: {error}"
        ) from error
    for name, value in arrays.items():
        if value.dtype.kind != "f":
            raise ValueError(
                f"`pretrained` must be an .npz file of floating-point arrays, got {str(path)!r}, in which "
                f"{name} is not one."
            )
    return {name[: -len(_SUFFIX)]: value for name, value in arrays.items()}


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    """Reads one array. `numpy.load` would allocate what its header says before it knows of any content."""
    if not info.filename.endswith(_SUFFIX):
        raise ValueError(f"{info.filename} is not a floating-point array")
    if info.file_size > _MAX_COMPRESSION * info.compress_size:
        raise ValueError(f"{info.filename} is compressed by more than weights can be")
    content = archive.read(info)
    file = BytesIO(content)
    version = np.lib.format.read_magic(file)
    if version not in _READ_HEADER:
        raise ValueError(f"{info.filename} has version {version} of NumPy's format")
    shape, fortran_order, dtype = _READ_HEADER[version](file)
    if dtype.hasobject:
        raise ValueError(f"{info.filename} holds Python objects, which are not unpickled")
    if dtype.itemsize * math.prod(shape) != len(content) - file.tell():
        raise ValueError(f"{info.filename} is cut short or damaged")
    values = np.frombuffer(content, dtype, offset=file.tell())
    return values.reshape(shape, order="F" if fortran_order else "C")
