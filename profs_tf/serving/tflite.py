"""Converts the embedder to TensorFlow Lite, and runs it.

Shapes: N images, H x W their size in pixels, D the embedding dimension.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf


def to_tflite(
    function: tf.types.experimental.GenericFunction, embedder: tf.keras.Model, float16: bool = False
) -> bytes:
    """Converts to a TensorFlow Lite model with the one signature `serving_default`.

    Args:
        function: The result of `portable_function`.
        embedder: The model whose weights it uses.
        float16: Whether weights are stored in half precision, at half the size. Devices without half
            precision still compute in float32.

    Returns:
        The bytes of the file.
    """
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function()], embedder)
    if float16:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.target_spec.supported_types = [tf.float16]
    with _silenced():
        return converter.convert()


def embed_by_tflite(content: bytes, images: np.ndarray) -> np.ndarray:
    """Embeds images with a TensorFlow Lite model.

    Args:
        content: Bytes of the file.
        images: [N, H, W, 3], RGB with values 0 to 255, of any numeric dtype.

    Returns:
        float32 [N, D].
    """
    interpreter = _interpreter_class()(model_content=content)
    index = interpreter.get_input_details()[0]["index"]
    interpreter.resize_tensor_input(index, images.shape)
    return interpreter.get_signature_runner()(images=images.astype(np.float32))["embeddings"]


def _interpreter_class() -> Any:
    """Returns LiteRT's interpreter if it is installed, else TensorFlow's, which will be removed."""
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        return tf.lite.Interpreter
    return Interpreter


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    """Suppresses the operation counts that the converter writes to file descriptor 2."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), 2)
            yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
