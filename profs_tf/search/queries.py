"""What an index can be asked with: files, their bytes, images in memory, embeddings; one or many at once.

Shapes: Q queries, B images, D embedding dimension; H, W the height and width of an image in pixels.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Union, cast

import numpy as np
from PIL import Image

from profs_tf.inputs.decoding import UnreadableImageError, convert_pillow
from profs_tf.serving.loaded import SavedEmbedder

Query = Union[str, os.PathLike, bytes, Image.Image, np.ndarray]
"""A path; the bytes of an image file; an image of Pillow, or uint8 `[H, W, 3]`; an embedding, float `[D]`."""

Queries = Union[Query, Iterable[Query]]
"""One query or many; also uint8 `[B, H, W, 3]` or float `[Q, D]`."""

# Images that are embedded at once, and bytes of pixels: photos of twelve million pixels have 36 MB each.
_BATCH_SIZE = 64
_BATCH_BYTES = 1 << 26
_CURE = {
    "f": "Embeddings have one axis; scale images to 0..255 and cast them to uint8.",
    "u": "Give gray images three channels, and drop an alpha channel.",
}


def list_queries(queries: Queries) -> list[Query]:
    """Returns the queries as paths, bytes, images of Pillow, and arrays uint8 `[H, W, 3]` or float `[D]`.

    Raises:
        ValueError: If there are none, or an array has another shape or type.
        TypeError: If one is something else.
    """
    is_one = isinstance(queries, (str, os.PathLike, bytes, bytearray, memoryview, Image.Image))
    # An open file is no list of its lines, though it gives them one by one.
    is_none = hasattr(queries, "read") or not (hasattr(queries, "__iter__") or hasattr(queries, "__array__"))
    listed: Iterable[Any] = cast(Iterable[Any], queries)
    if is_one or is_none:
        listed = [queries]
    elif hasattr(queries, "__array__"):
        array = np.asarray(queries)
        many = array.ndim == {"u": 4, "f": 2}.get(array.dtype.kind, 1)
        listed = list(array) if many else [array]
    found = [_checked(query, f"queries[{number}]") for number, query in enumerate(listed)]
    if not found:
        raise ValueError("`queries` must hold at least one query, got none.")
    return found


def _checked(query: Any, argument: str) -> Query:
    if isinstance(query, (str, os.PathLike)):
        return os.path.expanduser(query)
    if isinstance(query, Image.Image):
        if not (query.width and query.height):
            raise ValueError(f"`{argument}` must have pixels, got an image of Pillow of size {query.size}.")
        return query
    if isinstance(query, bytes):
        return query
    if isinstance(query, (bytearray, memoryview)):
        return bytes(query)
    if not hasattr(query, "__array__"):
        raise TypeError(
            f"`{argument}` must be a path, the bytes of an image file, an image of Pillow, or an array, "
            f"got {type(query).__name__}."
        )
    array = np.asarray(query)
    is_image = array.dtype == np.uint8 and array.ndim == 3 and array.shape[2] == 3 and array.size
    is_embedding = array.dtype.kind == "f" and array.ndim == 1 and array.size
    if not (is_image or is_embedding):
        raise ValueError(
            f"`{argument}` must be an image, uint8 [H, W, 3], or an embedding, float [D], got {array.dtype} "
            f"of shape {list(array.shape)}. {_CURE.get(array.dtype.kind, 'Cast it.')}"
        )
    return array


def check_files(queries: Iterable[Query], argument: str = "queries") -> None:
    """Raises UnreadableImageError for the first image file that cannot be opened; reads none of them."""
    for query in queries:
        if not isinstance(query, (str, os.PathLike)):
            continue
        try:
            with open(query, "rb"):
                pass
        # ValueError: of a path with a null byte.
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UnreadableImageError(f"{query}: {reason}", argument) from error


def embed_queries(queries: list[Query], open_embedder: Callable[[], SavedEmbedder], dim: int) -> np.ndarray:
    """Embeds queries, float32 `[Q, D]`.

    Args:
        queries: As `list_queries` returns them.
        open_embedder: Returns the embedder; not called if all queries are embeddings.
        dim: D.

    Raises:
        ValueError: If an embedding has another dimension, or is not finite.
        UnreadableImageError: If an image cannot be read.
    """
    parts = []
    for kind, batch in _batches(queries):
        if kind == "file":
            parts.append(open_embedder().embed_files(batch))
        elif len(kind) == 3:
            parts.append(open_embedder().embed_pictures(np.stack(batch)))
        else:
            parts.append(_checked_embeddings(batch, dim))
    return np.concatenate(parts)


def _checked_embeddings(batch: list[np.ndarray], dim: int) -> np.ndarray:
    for embedding in batch:
        if embedding.shape != (dim,):
            raise ValueError(
                f"`queries` must have {dim} dimensions where they are embeddings, as the index has, "
                f"got {len(embedding)}."
            )
    embeddings = np.stack(batch).astype(np.float32)
    if not np.isfinite(embeddings).all():
        raise ValueError("`queries` must be finite where they are embeddings, got NaN or infinite values.")
    return embeddings


def _batches(queries: list[Query]) -> Iterator[tuple[Any, list[Any]]]:
    """Groups successive queries; yields each batch after "file" or the shape that its arrays share."""
    kind: Any = None
    batch: list[Any] = []
    for query in queries:
        item = convert_pillow(query) if isinstance(query, Image.Image) else query
        own = item.shape if isinstance(item, np.ndarray) else "file"
        fitting = _BATCH_BYTES // item.nbytes if isinstance(item, np.ndarray) else _BATCH_SIZE
        if batch and (own != kind or len(batch) >= min(fitting, _BATCH_SIZE)):
            yield kind, batch
            batch = []
        kind = own
        batch.append(item)
    yield kind, batch
