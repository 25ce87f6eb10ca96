"""The exported embedder: a Keras SavedModel with the evaluation preprocessing inside its signatures.

Shapes: B images a batch, H x W their size in pixels, D the embedding dimension.
"""

import collections
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np
import tensorflow as tf

from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.decoding import (
    FileOrBytes,
    UnreadableImageError,
    read_all_encoded,
    read_contents,
    reencode_as_png,
)
from profs_tf.inputs.preprocessing import Preprocessing, prepare_for_evaluation
from profs_tf.inputs.tf_decoding import decode
from profs_tf.utils.errors import first_line
from profs_tf.utils.files import check_no_pattern, expanded
from profs_tf.utils.progress import Progress

FLOAT_SIGNATURE = "serving_default"
UINT8_SIGNATURE = "uint8_images"
ENCODED_SIGNATURE = "encoded_images"
# In the folder that SavedModel leaves to the users: what of an embedder its weights do not tell.
DESCRIPTION = "assets.extra/embedder.json"
# AutoGraph would take a second to find no control flow in the preprocessing; a backbone may have some.
_as_it_is = tf.autograph.experimental.do_not_convert


def save_embedder(
    embedder: tf.keras.Model, preprocessing: Preprocessing, path: Union[str, os.PathLike]
) -> None:
    """Writes the embedder as a SavedModel that needs nothing but TensorFlow to be loaded.

    Three signatures, each with the output `embeddings`, float32 [B, D]:

    * `serving_default`: `images`, float32 [B, H, W, 3], RGB with values 0 to 255;
    * `uint8_images`: `images`, the same as uint8;
    * `encoded_images`: `images`, string [B], the bytes of JPEG, PNG, GIF or BMP files of any size. It has
      TensorFlow's decoders only (`inputs.tf_decoding.decode`): EXIF orientation is ignored.

    Each scales and crops as the evaluation does; float values are rounded to integers first, so that the
    three agree. Called as a Keras model, the embedder expects scaled and cropped images.

    Args:
        embedder: Keras model from images [B, crop, crop, 3] to [B, D].
        preprocessing: That of the evaluation.
        path: Folder to write.

    Raises:
        ValueError: If the path is one at which TensorFlow would find no weights.
    """
    check_no_pattern("path", path)

    def embed_prepared(prepared: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"embeddings": embedder(prepared, training=False)}

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 3], tf.uint8, name="images")])
    def embed_uint8(images: tf.Tensor) -> dict[str, tf.Tensor]:
        return embed_prepared(_prepare_batch(images, preprocessing))

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 3], tf.float32, name="images")])
    def embed_float(images: tf.Tensor) -> dict[str, tf.Tensor]:
        whole = tf.cast(tf.clip_by_value(tf.round(images), 0.0, 255.0), tf.uint8)
        return embed_prepared(_prepare_batch(whole, preprocessing))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="images")])
    def embed_encoded(images: tf.Tensor) -> dict[str, tf.Tensor]:
        crop = preprocessing.crop
        prepared = tf.map_fn(
            _as_it_is(lambda encoded: prepare_for_evaluation(decode(encoded), preprocessing)),
            images,
            fn_output_signature=tf.TensorSpec([crop, crop, 3], tf.uint8),
        )
        return embed_prepared(prepared)

    signatures = {
        FLOAT_SIGNATURE: embed_float,
        UINT8_SIGNATURE: embed_uint8,
        ENCODED_SIGNATURE: embed_encoded,
    }
    embedder.save(str(path), save_format="tf", include_optimizer=False, signatures=signatures)
    description = Path(path, DESCRIPTION)
    description.parent.mkdir(exist_ok=True)
    description.write_text(json.dumps(describe(embedder, preprocessing), indent=2) + "\n", "utf-8")


def describe(embedder: tf.keras.Model, preprocessing: Preprocessing) -> dict[str, Any]:
    """Returns what embeddings depend on besides weights: the evaluation's sizes and the kinds of layers."""
    layers = [module for module in embedder.submodules if isinstance(module, tf.keras.layers.Layer)]
    kinds = collections.Counter(f"{type(layer).__name__} {layer.compute_dtype}" for layer in layers)
    sizes = {"resize": preprocessing.resize, "crop": preprocessing.crop}
    # Embedders of earlier versions, which all stretched, keep their hash.
    aspect = {} if preprocessing.aspect == "stretch" else {"aspect": preprocessing.aspect}
    return {
        "preprocessing": {**sizes, **aspect},
        "layers": dict(sorted(kinds.items())),
    }


def embed_with_saved(
    path: Union[str, os.PathLike], image_list: ImageList, batch_size: int = 128, progress: bool = False
) -> np.ndarray:
    """Embeds a data set by the signatures of an exported embedder, float32 [N, D].

    Files that TensorFlow's decoders do not decode correctly are decoded by Pillow first, as in training.

    Args:
        path: Folder that `save_embedder` wrote.
        image_list: N images, in memory or as files.
        batch_size: Images embedded at once.
        progress: Whether to show a progress bar.

    Raises:
        FileNotFoundError: If there is no SavedModel.
        ValueError: If it lacks the signatures, or images have bounding boxes, which no signature supports.
        UnreadableImageError: If a file cannot be read; the message names it.
        ArithmeticError: If an embedding is not finite; the message names the picture.
    """
    if image_list.boxes is not None:
        raise ValueError(
            f"`image_list` must have no bounding boxes for a SavedModel, got {image_list!r}. "
            "Cut the boxes out of the files first."
        )
    images = image_list.images
    embed = load_signature(path, UINT8_SIGNATURE if image_list.is_in_memory else ENCODED_SIGNATURE)
    embeddings = []
    with Progress("embed", len(image_list), progress) as bar:
        for start in range(0, len(image_list), batch_size):
            part = slice(start, start + batch_size)
            if isinstance(images, np.ndarray):
                embedded = embed(images=tf.constant(images[part]))
            else:
                embedded = embed_files(embed, images[part])
            embeddings.append(embedded["embeddings"].numpy())
            bar.advance(units=len(images[part]))
    names = [f"image {at}" for at in range(len(images))] if isinstance(images, np.ndarray) else images
    check_finite_embeddings(found := np.concatenate(embeddings), names)
    return found


def check_finite_embeddings(embeddings: np.ndarray, names: Sequence[FileOrBytes]) -> None:
    """Raises ArithmeticError, which names a picture, unless all embeddings, [n, D], are finite."""
    wrong = np.flatnonzero(~np.isfinite(embeddings).all(axis=1))
    if len(wrong):
        raise ArithmeticError(
            f"Embeddings must be finite, got another value for {names[wrong[0]]!s}. Check the embedder."
        )


def embed_files(
    embed: tf.types.experimental.ConcreteFunction,
    paths: Sequence[FileOrBytes],
    contents: Optional[Sequence[bytes]] = None,
) -> dict[str, tf.Tensor]:
    """Embeds picture files, or the bytes of some, by the signature `encoded_images`; returns its outputs.

    Args:
        embed: The signature.
        paths: Of the files.
        contents: Their bytes; None: they are read.

    Raises:
        UnreadableImageError: If a file cannot be read; the message names it.
    """
    contents = read_contents(paths) if contents is None else contents
    try:
        return embed(images=tf.constant(read_all_encoded(paths, contents), tf.string))
    except tf.errors.InvalidArgumentError:
        # A file has a valid header and broken contents: Pillow can read it, or names it.
        decoded = [reencode_as_png(path, content) for path, content in zip(paths, contents)]
    try:
        return embed(images=tf.constant(decoded))
    except tf.errors.InvalidArgumentError:
        for path, image in zip(paths, decoded):
            _check_embeds(embed, path, image)
        raise


def _check_embeds(embed: tf.types.experimental.ConcreteFunction, path: FileOrBytes, image: bytes) -> None:
    """Raises UnreadableImageError, which names the file, if the model does not take its picture."""
    try:
        embed(images=tf.constant([image]))
    except tf.errors.InvalidArgumentError as error:
        name = f"{len(path):,} bytes" if isinstance(path, bytes) else path
        raise UnreadableImageError(f"{name}: the embedder does not take it: {first_line(error)}") from error


def check_saved_model(path: Union[str, os.PathLike]) -> None:
    """Raises unless a folder holds a SavedModel that can be loaded.

    Raises:
        FileNotFoundError: If there is none; the message says how a run gets one.
        ValueError: If the path is one at which TensorFlow finds no weights.
    """
    check_no_pattern("embedder", path)
    folder = expanded(path)
    if folder.joinpath("saved_model.pb").exists():
        return
    cure = ""
    for run in (folder, folder.parent):
        own = run / "embedder"
        if own.joinpath("saved_model.pb").exists():
            cure = f" The run exported it to {own}."
        elif run.joinpath("config.json").exists() and run.joinpath("best", "weights.index").exists():
            cure = f" Export it by `python -m profs_tf.export --run_dir={run} --output={own}`."
        if cure:
            break
    raise FileNotFoundError(
        f"`embedder` must be the folder of a SavedModel, but {path}/saved_model.pb is missing.{cure}"
    )


def load_signature(path: Union[str, os.PathLike], name: str) -> tf.types.experimental.ConcreteFunction:
    """Loads one signature of an exported embedder.

    Raises:
        FileNotFoundError: If there is no SavedModel.
        ValueError: If it cannot be read, or lacks the signature.
    """
    check_saved_model(path)
    try:
        loaded = tf.saved_model.load(os.path.expanduser(path))
    except (OSError, tf.errors.OpError) as error:
        raise ValueError(
            f"`embedder` must be a SavedModel that can be read, got {path}: {first_line(error)}."
        ) from error
    embed = loaded.signatures.get(name)
    if embed is None or "embeddings" not in embed.structured_outputs:
        raise ValueError(
            f"`embedder` must have the signature {name} that gives `embeddings`, got {path} with "
            f"{', '.join(loaded.signatures)}. Export it by `python -m profs_tf.export`."
        )
    # A signature does not keep alive the object that owns its variables.
    embed.loaded = loaded
    return embed


def _prepare_batch(images: tf.Tensor, preprocessing: Preprocessing) -> tf.Tensor:
    """Scales and crops every image of a batch, uint8 [B, H, W, 3] to uint8 [B, crop, crop, 3]."""
    crop = preprocessing.crop
    return tf.map_fn(
        _as_it_is(lambda image: prepare_for_evaluation(image, preprocessing)),
        images,
        fn_output_signature=tf.TensorSpec([crop, crop, 3], tf.uint8),
    )
