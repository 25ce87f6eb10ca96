"""Finds the nearest centre of every image, by float32 products of blocks.

Shapes: N images, D embedding dimension, C centres, n of the images, m of the centres.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import numpy as np

from profs_tf.metrics.exact.coordinates import Frame
from profs_tf.metrics.exact.matmul import Prepared, Product
from profs_tf.utils.threads import in_threads

# Rows and columns of a block of products.
_BLOCK = 2048


class NearestCentres:
    """Images that are compared with centres again and again.

    A score is x.c - |c|^2/2, the largest of which belongs to the nearest centre: it is half of
    |x|^2 - |x - c|^2, and |x|^2 is the same for all centres.

    Attributes:
        points: float32 `[N, D + 1]`, the images in the frame, each followed by a 1.
    """

    def __init__(self, embeddings: np.ndarray, frame: Frame, product: Product) -> None:
        """Copies the images twice, in float32.

        Args:
            embeddings: Float `[N, D]`.
            frame: In which they are compared.
            product: A product of `products.open_product`.
        """
        self.points = np.ones((embeddings.shape[0], embeddings.shape[1] + 1), np.float32)
        self._product = product

        def prepare(block: slice) -> Prepared:
            self.points[block, :-1] = frame.rows(embeddings, block)
            return product.prepare(self.points[block])

        self._blocks = list(in_threads(prepare, _slices(len(embeddings))))

    def find(self, centres: np.ndarray, images: Optional[np.ndarray] = None) -> tuple[np.ndarray, np.ndarray]:
        """The nearest centre of some images; the first of those equally near.

        Args:
            centres: float32 `[m, D]`.
            images: int64 `[n]`; None stands for all of them.

        Returns:
            Its number, int64 `[n]`, and its score, float32 `[n]`. O(n m D).
        """
        half_norms = np.einsum("md,md->m", centres, centres, dtype=np.float64) / 2
        extended = np.concatenate([centres, -half_norms[:, None].astype(np.float32)], axis=1)
        tiles = [self._product.prepare(extended[block]) for block in _slices(len(centres))]
        if images is None:
            parts = in_threads(lambda block: self._best(block, tiles), self._blocks)
        else:
            parts = in_threads(lambda block: self._best_of(images[block], tiles), _slices(len(images)))
        numbers, scores = zip(*parts)
        return np.concatenate(numbers), np.concatenate(scores)

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
