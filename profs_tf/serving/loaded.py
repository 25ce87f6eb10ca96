"""An exported embedder, loaded when it is first used, and told apart from others by its files' hash.

Shapes: B images, D embedding dimension.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Union

import numpy as np
import tensorflow as tf

from profs_tf.inputs.decoding import UnreadableImageError, encode_anew, read_encoded
from profs_tf.serving.saved_model import ENCODED_SIGNATURE, UINT8_SIGNATURE, embed_files, load_signature

_BLOCK_BYTES = 1 << 20


class SavedEmbedder:
    """The folder of a SavedModel that `save_embedder` wrote.

    Attributes:
        path: the folder, absolute.
        sha256: hash of the names and contents of all its files, hexadecimal.
    """

    def __init__(self, path: Union[str, os.PathLike]) -> None:
        """Reads the files once for their hash; they are loaded when something is embedded.

        Raises:
            FileNotFoundError: if there is no SavedModel.
        """
        self.path = os.path.abspath(os.path.expanduser(path))
        if not Path(self.path, "saved_model.pb").exists():
            raise FileNotFoundError(
                f"`embedder` must be the folder of a SavedModel, but {path}/saved_model.pb is missing."
            )
        self.sha256 = folder_sha256(self.path)

    def embed_pictures(self, pictures: np.ndarray) -> np.ndarray:
        """Embeds pictures in memory, uint8 [B, H, W, 3], to float32 [B, D]."""
        return self._uint8(images=tf.constant(pictures))["embeddings"].numpy()

    def embed_files(self, paths: Sequence[Union[str, os.PathLike]]) -> np.ndarray:
        """Embeds picture files to float32 [B, D].

        Raises:
            UnreadableImageError: if a file cannot be read; the message names it.
        """
        return embed_files(self._encoded, paths)["embeddings"].numpy()

    def embed_readable_files(
        self, paths: Sequence[Union[str, os.PathLike]]
    ) -> tuple[np.ndarray, dict[int, UnreadableImageError]]:
        """Embeds those files that can be read, one by one.

        Returns:
            Embeddings float32 [n, D], and {position in `paths`: `UnreadableImageError`} of the others.
        """
        embeddings, errors = [], {}
        for position, path in enumerate(paths):
            try:
                embeddings.append(self._embed_file(path))
            except UnreadableImageError as error:
                errors[position] = error
        dimension = self._encoded.structured_outputs["embeddings"].shape[-1]
        return np.concatenate([np.zeros([0, dimension], np.float32), *embeddings]), errors

    def _embed_file(self, path: Union[str, os.PathLike]) -> np.ndarray:
        try:
            encoded = read_encoded(path)
            return self._encoded(images=tf.constant([encoded]))["embeddings"].numpy()
        except tf.errors.InvalidArgumentError:
            return self._encoded(images=tf.constant([encode_anew(path)]))["embeddings"].numpy()

    @functools.cached_property
    def _uint8(self) -> tf.types.experimental.ConcreteFunction:
        return load_signature(self.path, UINT8_SIGNATURE)

    @functools.cached_property
    def _encoded(self) -> tf.types.experimental.ConcreteFunction:
        return load_signature(self.path, ENCODED_SIGNATURE)


def folder_sha256(path: Union[str, os.PathLike]) -> str:
    """Returns the SHA-256 over the names, lengths and contents of all files in a folder, hexadecimal."""
    digest = hashlib.sha256()
    for file in sorted(item for item in Path(path).rglob("*") if item.is_file()):
        digest.update(f"{file.relative_to(path).as_posix()}\0{file.stat().st_size}\0".encode())
        with open(file, "rb") as stream:
            while block := stream.read(_BLOCK_BYTES):
                digest.update(block)
    return digest.hexdigest()
