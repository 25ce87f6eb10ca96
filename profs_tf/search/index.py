"""An index of pictures by their embeddings: built from a folder or a data set, searched by pictures.

    index = profs.ImageIndex.build("pictures", "runs/emoji/embedder", "pictures.index")
    for neighbor in index.query(["one.jpg"], k=8)[0]:
        print(neighbor.distance, neighbor.name)

Shapes: N images in the index, Q queries, D embedding dimension.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Optional, Union

from profs_tf.datasets.image_list import ImageList
from profs_tf.search.builder import build_index, index_embeddings
from profs_tf.search.changes import add_to_index, remove_from_index
from profs_tf.search.faiss_index import FaissReport, build_faiss
from profs_tf.search.reader import IndexReader
from profs_tf.utils.array_types import Array


class ImageIndex(IndexReader):
    """An index of images: built, searched (see `query`), and changed. Attributes: see `IndexReader`."""

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
    def from_embeddings(
        cls,
        embeddings: Array,
        names: Sequence[str],
        path: Union[str, os.PathLike],
        *,
        class_names: Optional[Sequence[str]] = None,
        embedder: Optional[Union[str, os.PathLike]] = None,
        root: Union[str, os.PathLike] = "",
        overwrite: bool = False,
    ) -> ImageIndex:
        """Writes the index of embeddings that are computed already.

        Args:
            embeddings: Float `[N, D]`; may be a memory map.
            names: N names, each once.
            path: Folder of the index.
            class_names: N, or None.
            embedder: Folder of the SavedModel that computed them; None: queries must be embeddings, too.
            root: Folder that the names are relative to, if they are paths.
            overwrite: Whether an index is replaced.

        Raises:
            ValueError: If there are not N names, one is there twice, or embeddings are not finite.
            FileExistsError: If the folder holds something, and `overwrite` is not set.
        """
        index_embeddings(
            embeddings,
            names,
            path,
            class_names=class_names,
            embedder=embedder,
            root=root,
            overwrite=overwrite,
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

    def add(
        self,
        images: Union[str, os.PathLike, Sequence[Union[str, os.PathLike]], ImageList],
        *,
        embedder: Optional[Union[str, os.PathLike]] = None,
        batch_size: int = 128,
        skip_unreadable: bool = False,
        progress: bool = False,
    ) -> None:
        """Embeds further pictures and appends them; a kill leaves the old index or the new one.

        What `build_faiss` wrote stays valid: its search is exact among the pictures that were added since.

        Args:
            images: A folder, paths of picture files, also outside of the indexed folder, or for an index with
                classes an `ImageList`.
            embedder: As for `query`.
            batch_size: As for `build`, like `skip_unreadable` and `progress`.
            skip_unreadable: Likewise.
            progress: Likewise.

        Raises:
            UnreadableImageError: If a picture cannot be read; the message names it.
            ValueError: If a picture is in the index already, or another process is changing it.
        """
        add_to_index(
            images,
            self.path,
            embedder=embedder,
            batch_size=batch_size,
            skip_unreadable=skip_unreadable,
            progress=progress,
        )
        self._open()

    def remove(self, names: Union[str, Iterable[str]]) -> None:
        """Removes images by their names; a kill leaves the old index or the new one.

        Their rows stay in the files, and are never found, until the index is built again.

        Raises:
            ValueError: If an image is not in the index, no image is left, or another process is changing it.
        """
        remove_from_index(names, self.path)
        self._open()

    def build_faiss(
        self,
        factory: str,
        *,
        distance: str = "euclidean",
        recall: float = 0.95,
        recall_sample: int = 1000,
        progress: bool = False,
    ) -> FaissReport:
        """Trains a faiss index of the embeddings and stores it in the folder, for `search="faiss"`.

        Searches for some of the images, by faiss and exactly, with nprobe or efSearch doubled until enough of
        the nearest images are found; this setting is stored. Replaces an earlier one; a kill leaves that.
        Images that are added later are searched exactly; a build of other pictures removes the faiss index.

        Args:
            factory: As faiss's `index_factory` takes it, such as "HNSW32" or "IVF1024,SQ8".
            distance: "euclidean" or "cosine"; of embeddings of length 1 it serves for both.
            recall: The Recall@10 against the exact search to reach, in (0, 1].
            recall_sample: Number of images to search for.
            progress: Whether to show a progress bar.

        Returns:
            What was measured. Its `recall` may be below the wanted one, which no setting reaches then.

        Raises:
            ValueError: If faiss is not installed or refuses `factory`, or another process is changing the
                index.
        """
        report = build_faiss(
            self.path,
            factory,
            distance=distance,
            recall=recall,
            recall_sample=recall_sample,
            progress=progress,
        )
        self._open()
        return report
