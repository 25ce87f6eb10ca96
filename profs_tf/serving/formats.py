"""Exports an embedder in several formats, each compared with the Keras model before anything is written.

Shapes: N images, H x W their size in pixels, D the embedding dimension.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Callable, NamedTuple, Optional, Union

import numpy as np
import tensorflow as tf

from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.decoding import read_image
from profs_tf.inputs.preprocessing import Preprocessing, prepare_for_evaluation
from profs_tf.serving.onnx import embed_by_onnx, require_onnx, to_onnx
from profs_tf.serving.portable import portable_function
from profs_tf.serving.saved_model import FLOAT_SIGNATURE, save_embedder
from profs_tf.serving.tflite import embed_by_tflite, to_tflite
from profs_tf.utils.files import write_atomically

SAVED_MODEL = "saved_model"
# The name under which the Hugging Face Hub looks for it.
CARD = "README.md"
_SAMPLE_SIZE = 4


class Format(NamedTuple):
    """An export format."""

    file: str
    """Its name in the folder; "" if the folder itself is the model."""
    bound: float
    """Largest difference from the Keras model's embeddings."""


FORMATS = {
    SAVED_MODEL: Format("", 1e-3),
    "tflite": Format("embedder.tflite", 1e-3),
    "tflite_float16": Format("embedder_float16.tflite", 1e-2),
    "onnx": Format("embedder.onnx", 1e-3),
}


class ExportMismatchError(ArithmeticError):
    """An exported model differs from the Keras model."""


def check_formats(names: Sequence[str]) -> None:
    """Raises ValueError for unknown formats, and for those whose libraries are not installed."""
    if not names:
        raise ValueError(f"`formats` must name at least one of {', '.join(FORMATS)}, got none.")
    for name in names:
        if name not in FORMATS:
            raise ValueError(f"`formats` must be among {', '.join(FORMATS)}, got {name!r}.")
    if "onnx" in names:
        require_onnx()


def sample_of(image_list: ImageList, preprocessing: Preprocessing) -> list[np.ndarray]:
    """Returns a few pictures evenly spread over a data set, scaled as in the evaluation, uint8 [S, S, 3].

    Runtimes may round a scaled value half way between two integers differently, and a deep network may
    amplify that beyond the bound. Scaling an already scaled picture is exact.

    Raises:
        UnreadableImageError: If a file cannot be read; the message names it.
    """
    indices = np.linspace(0, len(image_list) - 1, min(_SAMPLE_SIZE, len(image_list))).astype(int)
    chosen = [image_list.images[index] for index in indices]
    pictures = [picture if isinstance(picture, np.ndarray) else read_image(picture) for picture in chosen]
    if not preprocessing.resize:
        return pictures
    scaling = dataclasses.replace(preprocessing, crop=preprocessing.resize)
    return [prepare_for_evaluation(tf.constant(picture), scaling).numpy() for picture in pictures]


def export_embedder(
    folder: Union[str, os.PathLike],
    names: Sequence[str],
    embedder: tf.keras.Model,
    preprocessing: Preprocessing,
    pictures: Sequence[np.ndarray],
    card: Callable[[dict[str, float]], str],
    portable_embedder: Optional[tf.keras.Model] = None,
) -> dict[str, float]:
    """Writes the formats and the model card into a new folder: all of them, or nothing.

    All files are written and checked in a temporary folder beside it, which is then renamed.

    Args:
        folder: To write; it must not exist.
        names: Formats, see `FORMATS`.
        embedder: Keras model from images [N, crop, crop, 3] to [N, D].
        preprocessing: That of the evaluation.
        pictures: Test inputs of the formats, each uint8 [H, W, 3].
        card: Makes the text of the model card from the returned differences.
        portable_embedder: The same model computing in float32, for all formats but SavedModel; None if
            `embedder` computes in float32.

    Returns:
        The largest difference from the Keras model by format.

    Raises:
        ValueError: If a format is unknown, or its libraries are not installed.
        ExportMismatchError: If a format differs from the Keras model.
    """
    check_formats(names)
    target = Path(folder)
    temporary = target.with_name(f".{target.name}.part")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        differences = {
            name: _write(
                name,
                temporary,
                embedder if name == SAVED_MODEL else portable_embedder or embedder,
                preprocessing,
                pictures,
            )
            for name in sorted(names, key=list(FORMATS).index)
        }
        write_atomically(temporary / CARD, card(differences))
        os.rename(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return differences


def _write(
    name: str,
    folder: Path,
    embedder: tf.keras.Model,
    preprocessing: Preprocessing,
    pictures: Sequence[np.ndarray],
) -> float:
    """Writes one format; returns its largest difference from the Keras model."""
    if name == SAVED_MODEL:
        save_embedder(embedder, preprocessing, folder)
        embed = _saved_embedding(folder)
    else:
        content = _convert(name, embedder, preprocessing)
        (folder / FORMATS[name].file).write_bytes(content)
        run = embed_by_onnx if name == "onnx" else embed_by_tflite

        def embed(images: np.ndarray) -> np.ndarray:
            return run(content, images)

    return check_agreement(name, embed, embedder, preprocessing, pictures)


def _convert(name: str, embedder: tf.keras.Model, preprocessing: Preprocessing) -> bytes:
    function = portable_function(embedder, preprocessing)
    if name == "onnx":
        return to_onnx(function)
    return to_tflite(function, embedder, float16=name == "tflite_float16")


def _saved_embedding(folder: Path) -> Callable[[np.ndarray], np.ndarray]:
    loaded = tf.saved_model.load(str(folder))

    def embed(images: np.ndarray) -> np.ndarray:
        return loaded.signatures[FLOAT_SIGNATURE](images=tf.constant(images, tf.float32))[
            "embeddings"
        ].numpy()

    return embed


def check_agreement(
    name: str,
    embed: Callable[[np.ndarray], np.ndarray],
    embedder: tf.keras.Model,
    preprocessing: Preprocessing,
    pictures: Sequence[np.ndarray],
) -> float:
    """Compares a format with the Keras model under the evaluation preprocessing, picture by picture.

    Args:
        name: Of the format.
        embed: Maps images uint8 [1, H, W, 3] to embeddings [1, D], in the format.
        embedder: The Keras model.
        preprocessing: That of the evaluation.
        pictures: Each uint8 [H, W, 3].

    Returns:
        The largest absolute difference, relative to the largest absolute value if that is above 1 (which
        embeddings without unit length may have).

    Raises:
        ExportMismatchError: If it is above the format's bound, or not a number.
    """
    largest = 0.0
    for picture in pictures:
        prepared = prepare_for_evaluation(tf.constant(picture), preprocessing)
        expected = np.asarray(embedder(prepared[tf.newaxis], training=False))
        got = np.asarray(embed(picture[np.newaxis]))
        if got.shape != expected.shape:
            raise ExportMismatchError(
                f"The format {name} gives embeddings of shape {got.shape}, the Keras model {expected.shape}. "
                "Nothing was written."
            )
        difference = float(np.max(np.abs(got - expected)) / max(1.0, np.max(np.abs(expected))))
        largest = max(largest, difference) if np.isfinite(difference) else float("nan")
        if not largest <= FORMATS[name].bound:
            raise ExportMismatchError(
                f"The format {name} differs by {largest:g} from the Keras model, more than "
                f"{FORMATS[name].bound:g}. Nothing was written. Leave it out of --formats."
            )
    return largest
