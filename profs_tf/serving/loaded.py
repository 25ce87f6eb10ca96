"""An exported embedder, loaded when it is first used, and identified by its weights and preprocessing.

Shapes: B images, D embedding dimension.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Optional, Union

import numpy as np
import tensorflow as tf

from profs_tf.inputs.decoding import FileOrBytes, UnreadableImageError
from profs_tf.serving.saved_model import (
    DESCRIPTION,
    ENCODED_SIGNATURE,
    UINT8_SIGNATURE,
    check_saved_model,
    embed_files,
    load_signature,
)
from profs_tf.utils.errors import first_line

# The checkpoint's entry that is no weight: how objects hold each other, which differs between exports.
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


class SavedEmbedder:
    """The folder of a SavedModel that `save_embedder` wrote.

    Attributes:
        path: The folder, absolute.
        sha256: Hash of what its embeddings depend on, hexadecimal; see `embedder_sha256`.
    """

    def __init__(self, path: Union[str, os.PathLike]) -> None:
        """Reads the weights once for their hash; the model is loaded when something is embedded.

        Raises:
            FileNotFoundError: If there is no SavedModel.
            ValueError: If its weights cannot be read.
        """
        check_saved_model(path)
        self.path = os.path.abspath(os.path.expanduser(path))
        self.sha256 = embedder_sha256(self.path)
        self._signatures: dict[str, tf.types.experimental.ConcreteFunction] = {}
        self._loading = threading.Lock()

    def embed_pictures(self, pictures: np.ndarray) -> np.ndarray:
        """Embeds pictures in memory, uint8 [B, H, W, 3], to float32 [B, D]."""
        return self._uint8(images=tf.constant(pictures))["embeddings"].numpy()

    def embed_files(
        self, paths: Sequence[FileOrBytes], contents: Optional[Sequence[bytes]] = None
    ) -> np.ndarray:
        """Embeds picture files, or the bytes of some, to float32 [B, D].

        Args:
            paths: Of the files.
            contents: Their bytes; None: they are read.

        Raises:
            UnreadableImageError: If a file cannot be read; the message names it.
        """
        return embed_files(self._encoded, paths, contents)["embeddings"].numpy()

    def embed_batch(
        self,
        images: Union[np.ndarray, Sequence[Union[str, os.PathLike]]],
        skip_unreadable: bool,
        contents: Optional[Sequence[bytes]] = None,
    ) -> tuple[np.ndarray, dict[int, UnreadableImageError]]:
        """Embeds pictures in memory, uint8 [B, H, W, 3], or files; one by one only if a file cannot be read.

        Args:
            images: Pictures, or paths.
            skip_unreadable: Whether unreadable files are left out.
            contents: The files' bytes; None: they are read.

        Returns:
            Embeddings float32 [n, D], and {position in `images`: `UnreadableImageError`} of those left out.

        Raises:
            UnreadableImageError: If a file cannot be read and none is to be left out; the message names it.
        """
        if isinstance(images, np.ndarray):
            return self.embed_pictures(images), {}
        if not len(images):
            return self.embed_readable_files(images)
        try:
            return self.embed_files(images, contents), {}
        except UnreadableImageError:
            if not skip_unreadable:
                raise
        return self.embed_readable_files(images, contents)

    def embed_readable_files(
        self, paths: Sequence[Union[str, os.PathLike]], contents: Optional[Sequence[bytes]] = None
    ) -> tuple[np.ndarray, dict[int, UnreadableImageError]]:
        """Embeds the readable ones of some files, one by one.

        Args:
            paths: Of the files.
            contents: Their bytes; None: they are read.

        Returns:
            Embeddings float32 [n, D], and {position in `paths`: `UnreadableImageError`} of the others.
        """
        embeddings, errors = [], {}
        for position, path in enumerate(paths):
            content = None if contents is None else [contents[position]]
            try:
                embeddings.append(self.embed_files([path], content))
            except UnreadableImageError as error:
                errors[position] = error
        dimension = self._encoded.structured_outputs["embeddings"].shape[-1]
        return np.concatenate([np.zeros([0, dimension], np.float32), *embeddings]), errors

    @property
    def _uint8(self) -> tf.types.experimental.ConcreteFunction:
        return self._signature(UINT8_SIGNATURE)

    @property
    def _encoded(self) -> tf.types.experimental.ConcreteFunction:
        return self._signature(ENCODED_SIGNATURE)

    def _signature(self, name: str) -> tf.types.experimental.ConcreteFunction:
        """Returns a signature, loaded once: the first batches may be embedded by several threads."""
        with self._loading:
            if name not in self._signatures:
                self._signatures[name] = load_signature(self.path, name)
            return self._signatures[name]


def embedder_sha256(path: Union[str, os.PathLike]) -> str:
    """Returns the SHA-256 of a SavedModel's weights, preprocessing and kinds of layers, hexadecimal.

    Two exports of one run have the same hash, whatever the layers' names, TensorFlow's version and the bytes
    of the files: the weights are hashed by dtype, shape and values, in the order of their hashes. Of a
    SavedModel that `save_embedder` did not describe, the hash includes the bytes of its graph instead of
    preprocessing and layers.

    Raises:
        ValueError: If the weights cannot be read.
    """
    try:
        reader = tf.train.load_checkpoint(os.path.join(path, "variables", "variables"))
        names = [name for name in reader.get_variable_to_shape_map() if name != _OBJECT_GRAPH]
        weights = sorted(_tensor_sha256(reader.get_tensor(name)) for name in names)
    except (OSError, ValueError, IndexError, RuntimeError, tf.errors.OpError) as error:
        raise ValueError(
            f"`embedder` must be a SavedModel that can be read, got {path}: {first_line(error)}."
        ) from error
    description = Path(path, DESCRIPTION)
    rest = description if description.exists() else Path(path, "saved_model.pb")
    digest = hashlib.sha256(rest.read_bytes())
    for weight in weights:
        digest.update(weight)
    return digest.hexdigest()


def _tensor_sha256(tensor: np.ndarray) -> bytes:
    tensor = np.asarray(tensor)
    # Strings, such as a vocabulary's, are objects, whose bytes would be addresses.
    content = repr(tensor.tolist()).encode() if tensor.dtype == object else tensor.tobytes()
    return hashlib.sha256(f"{tensor.dtype} {tensor.shape}\0".encode() + content).digest()
