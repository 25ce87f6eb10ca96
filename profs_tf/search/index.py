"""An index of pictures by their embeddings: built from a folder or a data set, asked with pictures.

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
from profs_tf.inputs.decoding import Picture
from profs_tf.metrics.neighbors import NearestSearch, Own
from profs_tf.metrics.neighbors_faiss import FaissSearch
from profs_tf.search.builder import build_index
from profs_tf.search.storage import IndexFolder
from profs_tf.serving.loaded import SavedEmbedder

SEARCHES = ("exact", "faiss")

# Query pictures that are embedded at once.
_BATCH = 64


class Neighbor(NamedTuple):
    """An image that a query found.

    Attributes:
        name: its path relative to the indexed folder, or its name in the data set.
        distance: from the query.
        position: its place in the index.
        class_name: its class, or None where the index knows none.
    """

    name: str
    distance: float
    position: int
    class_name: Optional[str]


class ImageIndex:
    """A finished index. Embeddings are mapped into memory, not read.

    Attributes:
        path: its folder.
        root: the indexed folder, absolute; "" for a data set in memory.
        names: tuple of N names, as `Neighbor.name`.
        class_names: tuple of N, or None.
        embeddings: float32 `[N, D]`, read-only.
        embedding_dim: D.
        normalized: whether all embeddings have length 1.
        unreadable: list of (name, reason) of the pictures that were skipped.
        embedder: path of the SavedModel, as it was when the index was built.
        embedder_sha256: hash over its files.
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
        self.embeddings = folder.open_array(manifest, "embeddings")
        self._stamps = list(zip(table["sizes"], table["mtimes_ns"]))
        self._pictures = folder.open_array(manifest, "pictures") if "pictures" in manifest else None
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
        """Embeds pictures and writes their index; goes on with one that was begun, or has become old.

        Only pictures whose name, size or time of change is new are embedded, with those of their chunk (about
        a thousand). A kill loses the chunks at work; the index that is built on has the same bits.

        Args:
            images: a folder, of which all pictures at any depth are taken, or an `ImageList`.
            embedder: folder of a SavedModel that `save_embedder` wrote.
            path: folder of the index.
            batch_size: images embedded at once.
            skip_unreadable: whether pictures that cannot be read are left out, and named in `unreadable`.
            overwrite: whether an index by another embedder or of other pictures is replaced.
            progress: whether to show a progress bar.

        Returns:
            The index. Memory: some batches of files, two chunks of embeddings, and about 300 bytes an image.

        Raises:
            UnreadableImageError: a picture cannot be read; the message names it.
            ValueError: an index by another embedder or of other pictures is there.
            FileExistsError: the folder holds something else.
            FileNotFoundError, NotADirectoryError: no SavedModel, no folder.
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
        """Opens an index that was built.

        Raises:
            FileNotFoundError: there is none, or it is not finished.
            ValueError: it is of another version.
        """
        return cls(path)

    def __len__(self) -> int:
        return len(self.names)

    def query(
        self,
        pictures: Iterable[Picture],
        k: int = 8,
        *,
        embedder: Optional[Union[str, os.PathLike]] = None,
        distance: str = "euclidean",
        search: str = "exact",
        exclude_self: bool = True,
    ) -> list[list[Neighbor]]:
        """Finds the images nearest to pictures.

        Args:
            pictures: paths of picture files, or uint8 `[H, W, 3]` arrays.
            k: how many for each.
            embedder: folder of the SavedModel; None: where it was when the index was built.
            distance: "euclidean" or "cosine".
            search: "exact", or "faiss" where that is installed.
            exclude_self: whether a file that is in the index is not found by itself.

        Returns:
            A list of Q lists of k `Neighbor`, the nearest first. O(N D) time a query.

        Raises:
            ValueError: the embedder is another than the index's, no pictures, k out of its range.
            UnreadableImageError: a picture cannot be read; the message names it.
        """
        pictures = list(pictures)
        if not pictures:
            raise ValueError("`pictures` must hold at least one picture, got none.")
        model = self._checked_embedder(embedder or self.embedder)
        parts = [_embed(model, picture) for picture in _batches(pictures)]
        own = [self.position_of(picture) if exclude_self else -1 for picture in pictures]
        return self._neighbors(np.concatenate(parts), k, own, distance, search)

    def query_indexed(
        self,
        positions: Union[np.ndarray, Sequence[int]],
        k: int = 8,
        *,
        distance: str = "euclidean",
        search: str = "exact",
    ) -> list[list[Neighbor]]:
        """Finds the images nearest to images of the index, which are themselves left out.

        Args:
            positions: Q places in the index.
            k: as for `query`, like the rest and the result.
            distance: likewise.
            search: likewise.
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
        """Returns the path of an indexed picture, or the picture itself, uint8 `[H, W, 3]`, of a data set."""
        if self._pictures is not None:
            return self._pictures[position]
        return self._file(position)

    def _file(self, position: int) -> str:
        return os.path.join(self.root, self.names[position])

    def position_of(self, picture: Picture) -> int:
        """Returns the place of a picture file in the index, or -1 where it is not in it."""
        if isinstance(picture, np.ndarray):
            return -1
        # As a link that was indexed itself, else as what it leads to.
        found = self._places.get(_without_links_above(os.fspath(picture)), -1)
        return found if found >= 0 else self._places.get(os.path.realpath(picture), -1)

    def changed(self, positions: Iterable[int]) -> list[str]:
        """Returns the names of those images whose file is no longer what was embedded."""
        if self._pictures is not None:
            return []
        return [self.names[i] for i in dict.fromkeys(positions) if _stamp(self._file(i)) != self._stamps[i]]

    @functools.cached_property
    def _places(self) -> dict[str, int]:
        if self._pictures is not None:
            return {}
        paths = (_without_links_above(os.path.join(self.root, name)) for name in self.names)
        return {path: position for position, path in enumerate(paths)}

    def _checked_embedder(self, path: Union[str, os.PathLike]) -> SavedEmbedder:
        model = SavedEmbedder(path)
        if model.sha256 != self.embedder_sha256:
            raise ValueError(
                f"`embedder` must be the one of the index {self.path}, SHA-256 {self.embedder_sha256}, "
                f"got {path} with {model.sha256}. Build the index anew by it, with --overwrite."
            )
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
        return [
            [self._neighbor(position, value) for position, value in zip(*row)]
            for row in zip(*(values.tolist() for values in found))
        ]

    def _neighbor(self, position: int, distance: float) -> Neighbor:
        class_name = None if self.class_names is None else self.class_names[position]
        return Neighbor(self.names[position], distance, position, class_name)


def _batches(pictures: list[Picture]) -> list[Union[np.ndarray, list[Union[str, os.PathLike]]]]:
    """Splits pictures into files that are embedded together, and arrays that are so one by one."""
    batches: list[Union[np.ndarray, list[Union[str, os.PathLike]]]] = []
    for picture in pictures:
        last = batches[-1] if batches else None
        if isinstance(picture, np.ndarray):
            batches.append(picture)
        elif isinstance(last, list) and len(last) < _BATCH:
            last.append(picture)
        else:
            batches.append([picture])
    return batches


def _embed(model: SavedEmbedder, batch: Union[np.ndarray, list[Union[str, os.PathLike]]]) -> np.ndarray:
    return model.embed_files(batch) if isinstance(batch, list) else model.embed_pictures(batch[None])


def _stamp(path: str) -> Optional[tuple[int, int]]:
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns


def _without_links_above(path: str) -> str:
    """Returns a file's path through its real folder; the file itself may be a link."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(_real_folder(folder), name)


@functools.lru_cache(maxsize=1024)
def _real_folder(folder: str) -> str:
    return os.path.realpath(folder)
