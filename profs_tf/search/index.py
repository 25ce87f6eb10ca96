"""An index of pictures by their embeddings: built from a folder or a data set, searched by pictures.

    index = profs.ImageIndex.build("pictures", "runs/emoji/embedder", "pictures.index")
    for neighbor in index.query(["one.jpg"], k=8)[0]:
        print(neighbor.distance, neighbor.name)

Shapes: N images in the index, Q queries, D embedding dimension.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Optional, Union

import numpy as np

from profs_tf.datasets.image_list import ImageList
from profs_tf.metrics.neighbors import NearestSearch, Own, check_k
from profs_tf.metrics.neighbors_faiss import FaissSearch
from profs_tf.search.builder import build_index
from profs_tf.search.queries import Queries, Query, check_files, embed_queries, list_queries
from profs_tf.search.source import size_and_mtime
from profs_tf.search.storage import IndexFolder
from profs_tf.serving.loaded import SavedEmbedder

SEARCHES = ("exact", "faiss")


class Neighbor(NamedTuple):
    """An indexed image near a query.

    Attributes:
        name: Its path relative to the indexed folder, or its name in the data set.
        distance: From the query.
        position: Its index among the indexed images.
        class_name: Its class, or None if the index has no classes.
    """

    name: str
    distance: float
    position: int
    class_name: Optional[str]


class ImageIndex:
    """A finished index. Embeddings are mapped into memory, not copied.

    Attributes:
        path: Its folder.
        root: The indexed folder, absolute; "" for a data set in memory.
        names: Tuple of N names, as `Neighbor.name`.
        class_names: Tuple of N, or None.
        embeddings: float32 `[N, D]`, read-only.
        embedding_dim: D.
        normalized: Whether all embeddings have length 1.
        unreadable: List of (name, reason) of the skipped pictures.
        embedder: Path of the SavedModel when the index was built.
        embedder_sha256: Hash of its weights and preprocessing, see `SavedEmbedder`.
    """

    def __init__(self, path: Union[str, os.PathLike]) -> None:
        """Opens an index; see `load`."""
        folder = IndexFolder(path)
        self.path = str(folder.path)
        manifest = folder.read_manifest()
        table = folder.read_images(manifest)
        self.root, self.embedder = manifest["root"], manifest["embedder"]
        self.embedder_sha256, self.normalized = manifest["embedder_sha256"], manifest["normalized"]
        self.embedding_dim = manifest["embedding_dim"]
        self.names = tuple(table["names"])
        self.class_names = None if table["classes"] is None else tuple(table["classes"])
        self.unreadable = [tuple(pair) for pair in table["unreadable"]]
        self.embeddings = folder.open_array(manifest, "embeddings", (len(self.names), self.embedding_dim))
        self._stamps = list(zip(table["sizes"], table["mtimes_ns"]))
        self._pictures = folder.open_array(manifest, "pictures") if "pictures" in manifest else None
        self._embedders: dict[str, SavedEmbedder] = {}
        self._searches: dict[tuple[str, str], Union[NearestSearch, FaissSearch]] = {}

    @classmethod
    def build(
        cls,
        images: Union[str, os.PathLike, ImageList],
        embedder: Union[str, os.PathLike],
        path: Union[str, os.PathLike],
        *,
        batch_size: int = 128,
        skip_unreadable: bool = False,
        overwrite: bool = False,
        progress: bool = False,
    ) -> ImageIndex:
        """Embeds pictures and writes their index; continues an unfinished one, updates an old one.

        Only pictures with a new name, size or modification time are embedded, with those of their chunk
        (about a thousand). A kill loses the current chunks; the continued index has the same bits.

        Args:
            images: A folder, whose pictures at any depth are indexed, or an `ImageList`.
            embedder: Folder of a SavedModel that `save_embedder` wrote.
            path: Folder of the index.
            batch_size: Images embedded at once.
            skip_unreadable: Whether unreadable pictures are left out, and named in `unreadable`.
            overwrite: Whether an index of another embedder or of other pictures is replaced.
            progress: Whether to show a progress bar.

        Returns:
            The index. Memory: some batches of files, two chunks of embeddings, and about 300 bytes an image.

        Raises:
            UnreadableImageError: If a picture cannot be read; the message names it.
            ValueError: If the folder holds an index of another embedder or of other pictures, or another
                process is building it.
            FileExistsError: If the folder holds something else.
            FileNotFoundError, NotADirectoryError: If there is no SavedModel, or no folder.
        """
        build_index(
            images,
            embedder,
            path,
            batch_size=batch_size,
            skip_unreadable=skip_unreadable,
            overwrite=overwrite,
            progress=progress,
        )
        return cls(path)

    @classmethod
    def load(cls, path: Union[str, os.PathLike]) -> ImageIndex:
        """Opens a finished index; reads its files once for their checksums.

        Raises:
            FileNotFoundError: If there is none, or it is not finished.
            ValueError: If it is damaged or has another format.
        """
        return cls(path)

    def __len__(self) -> int:
        return len(self.names)

    def query(
        self,
        queries: Queries,
        k: int = 8,
        *,
        embedder: Optional[Union[str, os.PathLike]] = None,
        distance: str = "euclidean",
        search: str = "exact",
        exclude_self: bool = True,
    ) -> list[list[Neighbor]]:
        """Finds the images nearest to other images, or to embeddings.

        Args:
            queries: One query or many, of any kind: the path of an image file, the bytes of one, an image of
                Pillow, a uint8 `[H, W, 3]` array, or an embedding, float `[D]`. Also uint8 `[Q, H, W, 3]` or
                float `[Q, D]`.
            k: Neighbors of each query.
            embedder: Folder of the SavedModel; None: the path at which it was when the index was built.
                Loaded once; not needed for embeddings.
            distance: "euclidean" or "cosine".
            search: "exact", or "faiss" if it is installed.
            exclude_self: Whether a file that is in the index is excluded from its own neighbors.

        Returns:
            A list of Q lists, also for one query, of k `Neighbor`, the nearest first. O(N D) time a query.

        Raises:
            ValueError: If the embedder is not the index's, there are no queries, an array is neither image
                nor embedding, or k is out of range.
            TypeError: If a query is neither path, bytes, image nor array.
            UnreadableImageError: If an image cannot be read; the message names it.
        """
        listed = list_queries(queries)
        check_files(listed)
        own = np.array([self.position_of(query) if exclude_self else -1 for query in listed])
        check_k(k, len(self), own)
        open_embedder = functools.partial(self._checked_embedder, embedder or self.embedder)
        embeddings = embed_queries(listed, open_embedder, self.embedding_dim)
        return self._neighbors(embeddings, k, own, distance, search)

    def query_indexed(
        self,
        positions: Union[np.ndarray, Sequence[int]],
        k: int = 8,
        *,
        distance: str = "euclidean",
        search: str = "exact",
    ) -> list[list[Neighbor]]:
        """Finds the images nearest to indexed images, each excluded from its own neighbors.

        Args:
            positions: Q indices of indexed images.
            k: As for `query`, like the other arguments and the result.
            distance: Likewise.
            search: Likewise.
        """
        positions = np.asarray(positions)
        if positions.ndim != 1 or not len(positions) or positions.dtype.kind not in "iu":
            raise ValueError(f"`positions` must be a flat sequence of integers, got {positions!r}.")
        if positions.min() < 0 or positions.max() >= len(self):
            raise ValueError(
                f"`positions` must be in 0..{len(self) - 1}, got values from {positions.min()} to "
                f"{positions.max()}."
            )
        return self._neighbors(self.embeddings[positions], k, positions, distance, search)

    def picture(self, position: int) -> Union[str, np.ndarray]:
        """Returns the path of an indexed picture, or for a data set in memory its uint8 `[H, W, 3]`."""
        if self._pictures is not None:
            return self._pictures[position]
        return os.path.join(self.root, self.names[position])

    def position_of(self, picture: Query) -> int:
        """Returns the position of a picture file in the index, or -1 if it is not indexed, or no path."""
        if not isinstance(picture, (str, os.PathLike)):
            return -1
        # First as a link that was itself indexed, then as its target.
        found = self._positions.get(_resolve_folder(os.fspath(picture)), -1)
        return found if found >= 0 else self._positions.get(os.path.realpath(picture), -1)

    def changed(self, positions: Iterable[int]) -> list[str]:
        """Returns the names of those images whose file has changed since it was embedded."""
        if self._pictures is not None:
            return []
        unique = dict.fromkeys(positions)
        return [self.names[i] for i in unique if size_and_mtime(str(self.picture(i))) != self._stamps[i]]

    @functools.cached_property
    def _positions(self) -> dict[str, int]:
        if self._pictures is not None:
            return {}
        paths = (_resolve_folder(os.path.join(self.root, name)) for name in self.names)
        return {path: position for position, path in enumerate(paths)}

    def _checked_embedder(self, path: Union[str, os.PathLike]) -> SavedEmbedder:
        key = os.fspath(path)
        if key in self._embedders:
            return self._embedders[key]
        model = SavedEmbedder(path)
        if model.sha256 != self.embedder_sha256:
            raise ValueError(
                f"`embedder` must be the one of the index {self.path}, SHA-256 {self.embedder_sha256}, "
                f"got {path} with {model.sha256}. Rebuild the index with it and `overwrite=True`."
            )
        self._embedders[key] = model
        return model

    def _neighbors(
        self, embeddings: np.ndarray, k: int, own: Own, distance: str, search: str
    ) -> list[list[Neighbor]]:
        if search not in SEARCHES:
            raise ValueError(f"`search` must be one of {', '.join(SEARCHES)}, got {search!r}.")
        kind = NearestSearch if search == "exact" else FaissSearch
        if (search, distance) not in self._searches:
            self._searches[search, distance] = kind(self.embeddings, distance=distance)
        found = self._searches[search, distance].search(embeddings, k, own=own)
        classes = self.class_names
        return [
            [
                Neighbor(self.names[i], value, i, None if classes is None else classes[i])
                for i, value in zip(*row)
            ]
            for row in zip(*(values.tolist() for values in found))
        ]


def _resolve_folder(path: str) -> str:
    """Returns a file's path with the links of its folder resolved; the file itself may be a link."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(_real_folder(folder), name)


@functools.lru_cache(maxsize=1024)
def _real_folder(folder: str) -> str:
    return os.path.realpath(folder)
