"""One set of embeddings, in the order of its classes, in the forms in which it is compared.

Shapes: N images, D embedding dimension.
"""

from __future__ import annotations

from typing import Union

import numpy as np

from profs_tf.metrics.exact.coordinates import Frame, row_blocks

# Two squared distances are a tie where they differ by no more than this times the sum of the two squared
# norms in the frame; with the cosine distance norms are 1, so that cosines tie where they differ by no
# more. It is a thousand times what float64 gets wrong, and a ten-thousandth of what float32 embeddings can
# tell apart.
TIE_TOLERANCE = 1e-12

# What one float32 operation may get wrong, relatively.
_ROUNDING = 2.0**-24

# Below this a float32 product may lose its digits to underflow.
_UNDERFLOW = 1e-35


class Side:
    """Embeddings sorted by class, which makes the images of a class neighbors; a position is a place there.

    Attributes:
        order: int64 `[N]`, the image at each position.
        classes: int64 `[N]`, the class at each position, ascending.
        half_norms: float64 `[N]`, half of each position's squared norm.
        ties: float64 `[N]`, each position's share of what counts as a tie.
        width: Columns of a float32 block, D + 2.
    """

    def __init__(self, embeddings: np.ndarray, classes: np.ndarray, frame: Frame) -> None:
        """Sorts the embeddings `[N, D]` by their classes `[N]`; they themselves are not copied."""
        self._embeddings, self._frame = embeddings, frame
        self.order = np.argsort(classes, kind="stable")
        self.classes = classes[self.order]
        self.half_norms = frame.norms_sq(embeddings)[self.order] / 2
        norms_sq = np.full(len(embeddings), frame.scale**2) if frame.cosine else 2 * self.half_norms
        self.ties = TIE_TOLERANCE * norms_sq
        self.width = embeddings.shape[1] + 2

    def __len__(self) -> int:
        return len(self.order)

    def rows(self, positions: Union[np.ndarray, slice]) -> np.ndarray:
        """Float64 `[n, D]`, the rows at `positions` (an array or a slice)."""
        return self._frame.rows(self._embeddings, self.order[positions])

    def float32_block(self, positions: slice) -> np.ndarray:
        """Float32 `[n, D + 2]`, whose products with another side's `mirrored` block are scores.

        The product of (x, 1, -|x|^2/2) and (y, -|y|^2/2, 1) is x.y - |x|^2/2 - |y|^2/2 = -|x - y|^2/2.
        """
        block = np.ones((positions.stop - positions.start, self.width), np.float32)
        for part in row_blocks(block.shape):
            block[part, :-2] = self._frame.rows(self._embeddings, self.order[positions][part])
        block[:, -1] = -self.half_norms[positions]
        return block

    def class_range(self, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Positions where each class begins and ends, int64 `[n]` each; equal for one without images."""
        return np.searchsorted(self.classes, classes, "left"), np.searchsorted(self.classes, classes, "right")


def mirrored(block: np.ndarray) -> np.ndarray:
    """A `float32_block` with its last two columns exchanged: the other factor of the product."""
    return np.concatenate([block[:, :-2], block[:, :-3:-1]], axis=1)


def score_error(queries: Side, gallery: Side, rows: slice, columns: slice) -> np.ndarray:
    """By how much a score (minus half a squared distance) from float32 blocks may differ from the true one.

    A sum of n products is, in whatever order it is made, within n u / (1 - n u) times the sum of the
    products' magnitudes (Higham 2002, section 3.1), which here is at most |x|^2 + |y|^2; rounding the
    operands to float32 adds 3 u times half of that. This is a bound, not an estimate: nothing outside it
    needs a second look.

    Returns:
        float64 `[rows]`, a bound for each query and all gallery images at `columns`.
    """
    largest = queries.half_norms[rows] + gallery.half_norms[columns].max()
    tie = queries.ties[rows] + gallery.ties[columns].max()
    return (2.04 * queries.width + 4) * _ROUNDING * largest + tie + _UNDERFLOW
