"""Converts the embedder to ONNX, and runs it. Needs the extra `onnx`.

Shapes: N images, H x W their size in pixels, D the embedding dimension.
"""

from __future__ import annotations

import importlib

import numpy as np
import tensorflow as tf

# Of 2021: the oldest with all operations used here, so that old runtimes can read the file.
_OPERATOR_SET = 15


def require_onnx() -> None:
    """Checks that the libraries are installed.

    Raises:
        ValueError: If tf2onnx or onnxruntime cannot be imported; the message says how to install them.
    """
    for name in ("tf2onnx", "onnxruntime"):
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise ValueError(
                f"`formats` must not name onnx without {name}, which cannot be imported ({error}). "
                "Install it by pip install 'profs_tf[onnx]'."
            ) from error


def to_onnx(function: tf.types.experimental.GenericFunction) -> bytes:
    """Converts to an ONNX model with the input `images` and the output `embeddings`.

    Args:
        function: The result of `portable_function`.

    Returns:
        The bytes of the file.
    """
    import tf2onnx

    model, _ = tf2onnx.convert.from_function(
        function, input_signature=function.input_signature, opset=_OPERATOR_SET
    )
    return model.SerializeToString()


def embed_by_onnx(content: bytes, images: np.ndarray) -> np.ndarray:
    """Embeds images with an ONNX model.

    Args:
        content: Bytes of the file.
        images: [N, H, W, 3], RGB with values 0 to 255, of any numeric dtype.

    Returns:
        float32 [N, D].
    """
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return session.run(["embeddings"], {"images": images.astype(np.float32)})[0]
