"""Embeddings in TensorBoard: histograms of distances, strips of nearest images, and the projector.

Shapes: N images, D embedding dimension; n images of a sample.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Union

import numpy as np
import tensorflow as tf
from PIL import Image

from profs_tf.datasets.image_list import ImageList
from profs_tf.metrics.neighbors import nearest
from profs_tf.utils.checks import check_one_of
from profs_tf.visual.strip import draw_strip
from profs_tf.visual.thumbnails import picture_of, square_thumbnail

DETAILS = ("none", "scalars", "full")
_SAMPLE = 1000
_PER_CLASS = 32
_QUERIES = 4
_NEIGHBORS = 5
_PROJECTED = 2000
_SPRITE_SIZE = 32
_FOLDER = "projector"
_CONFIG = """embeddings {{
  tensor_name: "evaluated images"
  tensor_path: "{folder}/embeddings.tsv"
  metadata_path: "{folder}/classes.tsv"
  sprite {{
    image_path: "{folder}/sprite.png"
    single_image_dim: {size}
    single_image_dim: {size}
  }}
}}
"""


class EmbeddingBoard:
    """Writes the embeddings of each evaluation as events into the run's TensorBoard folder.

    Every evaluation shows the same images.
    """

    def __init__(
        self,
        folder: Union[str, os.PathLike],
        events: tf.summary.SummaryWriter,
        image_list: ImageList,
        detail: str = "scalars",
    ) -> None:
        """Chooses the images.

        Args:
            folder: Of TensorBoard, for the projector's files.
            events: The writer of everything else.
            image_list: The N evaluated images.
            detail: "none" writes nothing; "scalars" writes histograms of positive and of negative distances
                among a thousand images; "full" adds strips and the projector.

        Raises:
            ValueError: If `detail` is none of these.
        """
        check_one_of("detail", detail, DETAILS)
        self._folder = Path(folder)
        self._images = image_list
        self._detail = detail
        self._sample = sample_by_class(image_list.labels, _SAMPLE, _PER_CLASS)
        self._writer = events

    @property
    def writes_projector(self) -> bool:
        """Whether `write_projector` writes anything."""
        return self._detail == "full"

    def write(self, step: int, embeddings: np.ndarray) -> None:
        """Writes the figures of one evaluation; O(n² D), with strips O(N D).

        Args:
            step: Optimizer steps taken.
            embeddings: float [N, D].
        """
        if self._detail == "none":
            return
        positive, negative = pair_distances(embeddings[self._sample], self._images.labels[self._sample])
        with self._writer.as_default(step=step):
            for name, distances in (("positive", positive), ("negative", negative)):
                if len(distances):
                    tf.summary.histogram(f"distances/{name}", distances)
            if self._detail == "full":
                tf.summary.image("nearest", self._strip(embeddings)[np.newaxis])
        self._writer.flush()

    def write_projector(self, embeddings: np.ndarray) -> None:
        """Writes TensorBoard's projector: up to 2,000 images, their classes, and a sprite of thumbnails.

        Args:
            embeddings: float [N, D].
        """
        if not self.writes_projector:
            return
        chosen = sample_by_class(self._images.labels, _PROJECTED, _PROJECTED)
        folder = self._folder / _FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        np.savetxt(folder / "embeddings.tsv", embeddings[chosen], fmt="%.6g", delimiter="\t")
        # A metadata file with a single column has no header.
        names = [self._images.class_names[label] for label in self._images.labels[chosen]]
        lines = "".join(" ".join(name.split()) + "\n" for name in names)
        (folder / "classes.tsv").write_text(lines, "utf-8")
        sprite(self._images, chosen, _SPRITE_SIZE).save(folder / "sprite.png")
        config = _CONFIG.format(folder=_FOLDER, size=_SPRITE_SIZE)
        (self._folder / "projector_config.pbtxt").write_text(config, "utf-8")

    def _strip(self, embeddings: np.ndarray) -> np.ndarray:
        """Returns the neighbor strip of a few queries, uint8 [H, W, 3]."""
        queries, neighbors, distances = self._nearest(embeddings)
        rows = []
        for query, query_neighbors, query_distances in zip(queries, neighbors, distances):
            label = self._images.labels[query]
            row = [(picture_of(self._images, query), self._images.class_names[label])]
            for index, distance in zip(query_neighbors, query_distances):
                mark = "\N{CHECK MARK}" if self._images.labels[index] == label else "\N{BALLOT X}"
                row.append((picture_of(self._images, index), f"{mark} {distance:.3f}"))
            rows.append(row)
        file = io.BytesIO()
        draw_strip(rows, file)
        return np.asarray(Image.open(file))

    def _nearest(self, embeddings: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns a few queries, int64 [Q], what each finds in its gallery, int64 [Q, k], and distances."""
        is_query, labels = self._images.is_query, self._images.labels
        candidates = gallery = np.arange(len(labels))
        if is_query is not None:
            candidates, gallery = np.flatnonzero(is_query), np.flatnonzero(~is_query)
        spread = np.linspace(0, len(candidates) - 1, min(_QUERIES, len(candidates))).astype(int)
        queries = candidates[spread]
        found, distances = nearest(
            embeddings[queries],
            embeddings if is_query is None else embeddings[gallery],
            min(_NEIGHBORS, self._images.num_candidates),
            own=queries if is_query is None else None,
            labels=labels[queries],
            gallery_labels=labels[gallery],
        )
        return queries, gallery[found], distances


def sample_by_class(labels: np.ndarray, size: int, per_class: int) -> np.ndarray:
    """Returns the sorted indices of up to `size` images, whole classes in a fixed random order; O(N log N).

    Args:
        labels: int [N].
        size: Images at most.
        per_class: Images of a class at most, its first ones.
    """
    labels = np.asarray(labels)
    classes, index = np.unique(labels, return_inverse=True)
    rank = np.random.default_rng(0).permutation(len(classes))[index]
    order = np.argsort(rank, kind="stable")
    starts = np.searchsorted(rank[order], rank[order])
    kept = order[np.arange(len(order)) - starts < per_class]
    return np.sort(kept[:size])


def pair_distances(embeddings: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the Euclidean distances of all positive and of all negative pairs, each float [pairs].

    Args:
        embeddings: float [n, D].
        labels: int [n].
    """
    embeddings = np.asarray(embeddings, np.float64)
    first, second = np.triu_indices(len(embeddings), 1)
    squares = np.einsum("nd,nd->n", embeddings, embeddings)
    products = embeddings @ embeddings.T
    distances_sq = squares[first] + squares[second] - 2 * products[first, second]
    distances = np.sqrt(np.maximum(distances_sq, 0.0))
    same = labels[first] == labels[second]
    return distances[same], distances[~same]


def sprite(image_list: ImageList, chosen: np.ndarray, size: int) -> Image.Image:
    """Returns a square sheet of thumbnails, row by row, as TensorBoard's projector expects it.

    Args:
        image_list: The images.
        chosen: int [n], which of them are shown.
        size: Of each thumbnail, in pixels.
    """
    columns = int(np.ceil(np.sqrt(len(chosen))))
    sheet = Image.new("RGB", (columns * size, columns * size), "white")
    for number, index in enumerate(chosen):
        row, column = divmod(number, columns)
        sheet.paste(square_thumbnail(picture_of(image_list, index), size), (column * size, row * size))
    return sheet
