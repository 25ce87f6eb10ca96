"""Compares all images with centers by float32 products of blocks.

Shapes: N images, D embedding dimension, C centers, n of the images, m of the centers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import numpy as np

from profs_tf.metrics.exact import matmul
from profs_tf.metrics.exact.embeddings import Centering
from profs_tf.metrics.exact.matmul import Prepared, Product, block_slices
from profs_tf.utils.threads import in_threads


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

        self._blocks = list(in_threads(prepare, block_slices(len(embeddings))))

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
            parts = in_threads(lambda block: self._best_of(images[block], tiles), block_slices(len(images)))
        numbers, scores = zip(*parts)
        return np.concatenate(numbers), np.concatenate(scores)

    def list_close(
        self, images: np.ndarray, others: np.ndarray, norms_sq: np.ndarray, limits_sq: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Lists pairs of an image and another whose squared distance is below the limit of either.

        Args:
            images: int64 `[n]`.
            others: int64 `[m]`.
            norms_sq: float64 `[N]`, squared norms.
            limits_sq: float64 `[N]`, the limits.

        Returns:
            The image and the other of each pair, int64 `[p]` each, and squared distances, float64 `[p]`. O(n
            m D).
        """
        tiles = self._tiles(self.points[others, :-1])
        limits = (limits_sq / -2).astype(np.float32)

        def search(block: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            rows, found = images[block], []
            left = self._product.prepare(self.points[rows])
            half_norms = (norms_sq[rows, None] / 2).astype(np.float32)
            for columns, tile in zip(block_slices(len(others)), tiles):
                scores = self._product(left, tile)
                # Minus half the squared distances.
                halves = scores - half_norms
                close = (halves > limits[rows, None]) | (halves > limits[others[columns]])
                row, column = np.divmod(np.flatnonzero(close), close.shape[1])
                distances_sq = np.maximum(norms_sq[rows[row]] - 2.0 * scores[row, column], 0)
                found.append((rows[row], others[columns][column], distances_sq))
            first, second, distances_sq = (np.concatenate(parts) for parts in zip(*found))
            return first, second, distances_sq

        first, second, distances_sq = zip(*in_threads(search, block_slices(len(images))))
        return np.concatenate(first), np.concatenate(second), np.concatenate(distances_sq)

    def _tiles(self, centers: np.ndarray) -> list[Prepared]:
        half_norms = np.einsum("md,md->m", centers, centers, dtype=np.float64) / 2
        extended = np.concatenate([centers, -half_norms[:, None].astype(np.float32)], axis=1)
        return [self._product.prepare(extended[block]) for block in block_slices(len(centers))]

    def _best_of(self, images: np.ndarray, tiles: Sequence[Prepared]) -> tuple[np.ndarray, np.ndarray]:
        return self._best(self._product.prepare(self.points[images]), tiles)

    def _best(self, block: Prepared, tiles: Sequence[Prepared]) -> tuple[np.ndarray, np.ndarray]:
        best, scores = self._best_in(block, tiles[0])
        for number, tile in enumerate(tiles[1:], 1):
            places, found = self._best_in(block, tile)
            better = found > scores
            best = np.where(better, places + number * matmul.BLOCK, best)
            scores = np.where(better, found, scores)
        return best, scores

    def _best_in(self, block: Prepared, tile: Prepared) -> tuple[np.ndarray, np.ndarray]:
        products = self._product(block, tile)
        places = products.argmax(axis=1)
        return places, products[np.arange(len(places)), places]
