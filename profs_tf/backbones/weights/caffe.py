"""Reads Caffe's blobs from an .npz file into a Keras network whose layers carry the Caffe layers' names.

A .caffemodel needs Caffe to be read. Where there is one, this writes its blobs:

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

from profs_tf.backbones.weights.assign import fill_from_arrays, outputs_first_slot, weights_by_name

_WORDS = {"kernel": "weights", "bias": "biases"}
# The three classifiers of GoogLeNet, with what leads to the two auxiliary ones.
_LEFT_OUT = re.compile(r"^loss[123]/")


def load_caffe_blobs(model: tf.keras.Model, path: str, blue_first: str) -> None:
    """Copies Caffe's blobs into ``model``: every one of them, or none and an error.

    The weight ``w`` of the layer "a.b" is read from "a/b/w", kernels as [out, in, height, width]. Classifiers
    ("loss1/...", "loss2/...", "loss3/...") are left out; any other array means another network.

    Args:
        model: The network, with Caffe's layer names, "." for "/".
        path: Of the .npz file.
        blue_first: Name of the convolution that expects BGR in the file; its kernel is turned to take RGB.

    Raises:
        ValueError: If the file is none of arrays, lacks a weight, holds one in another shape, one that the
            model has no place for, or one that is not finite. Says which. The model is unchanged then.
    """
    arrays = _read(path)
    slots = {
        f"{layer.replace('.', '/')}/{word}": outputs_first_slot(variable, layer == blue_first)
        for (layer, word), variable in weights_by_name(model, _WORDS).items()
    }
    content = f"Caffe's blobs of {model.name}"
    fill_from_arrays(slots, arrays, path=path, content=content, left_out=_LEFT_OUT)


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
                f"{name} is none."
            )
    return arrays
