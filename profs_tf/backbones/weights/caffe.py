"""Reads Caffe's blobs from an .npz file into a Keras network whose layers carry the Caffe layers' names.

Reading a .caffemodel needs Caffe. Where it is installed, this writes the blobs:

    net = caffe.Net("deploy.prototxt", "bvlc_googlenet.caffemodel", caffe.TEST)
    blobs = {f"{layer}/{word}": blob.data for layer, found in net.params.items()
             for word, blob in zip(("weights", "biases"), found)}
    numpy.savez("googlenet.npz", **blobs)

so that "conv1/7x7_s2/weights" is [64, 3, 7, 7], outputs first, and "conv1/7x7_s2/biases" is [64].
"""

from __future__ import annotations

import re
import zipfile
import zlib

import numpy as np
import tensorflow as tf

from profs_tf.backbones.weights.assign import assign_arrays, outputs_first_spec, variables_by_name

_WORDS = {"kernel": "weights", "bias": "biases"}
# The three classifiers of GoogLeNet, with the layers before the two auxiliary ones.
_IGNORED = re.compile(r"^loss[123]/")


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
        if not zipfile.is_zipfile(path):
            raise zipfile.BadZipFile("it is no zip archive, or is cut short")
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file.items())
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(
            f"`pretrained` must be a complete .npz file of Caffe's blobs, got {str(path)!r}: {error}"
        ) from error
    for name, value in arrays.items():
        if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
            raise ValueError(
                f"`pretrained` must be an .npz file of floating-point arrays, got {str(path)!r}, in which "
                f"{name} is not one."
            )
    return arrays
