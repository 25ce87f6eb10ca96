"""Compares all images with centers by float32 products of blocks.

Shapes: N images, D embedding dimension, C centers, n of the images, m of the centers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import numpy as np

from profs_tf.metrics.exact.embeddings import Centering
from profs_tf.metrics.exact.matmul import Prepared, Product
from profs_tf.utils.threads import in_threads

# Rows and columns of a block of products.
_BLOCK = 2048


class NearestCenters:
    """Images that are compared with changing centers.

    A score is x.c - |c|^2/2, the largest of which belongs to the nearest center: it is half of
    |x|^2 - |x - c|^2, and |x|^2 is the same for all centers.

    Attributes:
        points: float32 `[N, D + 1]`, the images, centered and scaled, each followed by a 1.
    """

    def __init__(self, embeddings: np.ndarray, centering: Centering, product: Product) -> None:
        """Copies the images twice, in float32.

        Args:
            embeddings: Float `[N, D]`.
            centering: Of the images.
            product: From `open_product`.
        """
        self.points = np.ones((embeddings.shape[0], embeddings.shape[1] + 1), np.float32)
        self._product = product

        def prepare(block: slice) -> Prepared:
            self.points[block, :-1] = centering.rows(embeddings, block)
            return product.prepare(self.points[block])

        self._blocks = list(in_threads(prepare, _slices(len(embeddings))))

    def find(self, centers: np.ndarray, images: Optional[np.ndarray] = None) -> tuple[np.ndarray, np.ndarray]:
        """The nearest center of some images; the first of those equally near.

        Args:
            centers: float32 `[m, D]`.
            images: int64 `[n]`; None stands for all of them.

        Returns:
            Its number, int64 `[n]`, and its score, float32 `[n]`. O(n m D).
        """
        tiles = self._tiles(centers)
        if images is None:
            parts = in_threads(lambda block: self._best(block, tiles), self._blocks)
        else:
            parts = in_threads(lambda block: self._best_of(images[block], tiles), _slices(len(images)))
        numbers, scores = zip(*parts)
        return np.concatenate(numbers), np.concatenate(scores)

    def list_above(
        self, centers: np.ndarray, bounds: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Lists the pairs of an image and a center whose score is above the image's bound.

        Args:
            centers: float32 `[m, D]`.
            bounds: float32 `[N]`.

        Returns:
            Images (ascending) and centers, int64 `[n]` each, and scores, float32 `[n]`. O(N m D).
        """
        tiles = self._tiles(centers)

        def above(block: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            first, found = block * _BLOCK, []
            limits = bounds[first : first + _BLOCK, None]
            for number, tile in enumerate(tiles):
                scores = self._product(self._blocks[block], tile)
                places = np.flatnonzero(scores > limits)
                images, columns = np.divmod(places, scores.shape[1])
                found.append((images + first, columns + number * _BLOCK, scores.ravel()[places]))
            images, columns, scores = (np.concatenate(parts) for parts in zip(*found))
            if len(tiles) > 1:
                order = np.argsort(images, kind="stable")
                images, columns, scores = images[order], columns[order], scores[order]
            return images, columns, scores

        images, columns, scores = zip(*in_threads(above, range(len(self._blocks))))
        return np.concatenate(images), np.concatenate(columns), np.concatenate(scores)

    def _tiles(self, centers: np.ndarray) -> list[Prepared]:
        half_norms = np.einsum("md,md->m", centers, centers, dtype=np.float64) / 2
        extended = np.concatenate([centers, -half_norms[:, None].astype(np.float32)], axis=1)
        return [self._product.prepare(extended[block]) for block in _slices(len(centers))]

    def _best_of(self, images: np.ndarray, tiles: Sequence[Prepared]) -> tuple[np.ndarray, np.ndarray]:
        return self._best(self._product.prepare(self.points[images]), tiles)

    def _best(self, block: Prepared, tiles: Sequence[Prepared]) -> tuple[np.ndarray, np.ndarray]:
        best, scores = self._best_in(block, tiles[0])
        for number, tile in enumerate(tiles[1:], 1):
            places, found = self._best_in(block, tile)
            better = found > scores
            best = np.where(better, places + number * _BLOCK, best)
            scores = np.where(better, found, scores)
        return best, scores

    def _best_in(self, block: Prepared, tile: Prepared) -> tuple[np.ndarray, np.ndarray]:
        products = self._product(block, tile)
        places = products.argmax(axis=1)
        return places, products[np.arange(len(places)), places]


def _slices(size: int) -> list[slice]:
    return [slice(start, min(start + _BLOCK, size)) for start in range(0, size, _BLOCK)]
