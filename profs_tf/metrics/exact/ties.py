"""The tie rule: among images at the same distance from a query, negatives rank before positives.

It holds for Recall@K, MAP@R and R-precision (`negatives.py`) and for neighbor lists with labels (`top_k.py`),
which the gallery page shows. So an embedding whose distances are all equal scores near 0 instead of by the
order of its images.

Squared distances |q - x|^2 and |q - y|^2 are the same if they differ by at most 1e-12 (|q|^2 + |x|^2), where
x is the negative and norms are taken around the gallery's mean; with the cosine distance, if the cosines
differ by at most 1e-12. That is a thousand times the error of float64, and a ten-thousandth of what float32
embeddings resolve.

A score is minus half a squared distance. Every image has a tie width, `TIE_TOLERANCE` times its squared norm;
raised by half the widths of query and image, the score of a negative reaches those of the positives it ties
with.

Shapes: n pairs of a query and a gallery image.
"""

import numpy as np

TIE_TOLERANCE = 1e-12


def tie_widths(norms_sq: np.ndarray) -> np.ndarray:
    """The tie widths of images, float64 as `norms_sq`; for pairs, those of query and image are added."""
    return TIE_TOLERANCE * norms_sq


def raise_negatives(scores: np.ndarray, query_widths: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Scores by which negatives rank among the scores of positives, float64 `[n]`.

    Args:
        scores: float64 `[n]`, true scores of negatives.
        query_widths: float64 `[n]`, the tie widths of their queries.
        widths: float64 `[n]`, their own tie widths.
    """
    return scores + (query_widths + widths) / 2


def rank_order(scores: np.ndarray, is_positive: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Orders images by raised score, then negatives first, then by index.

    Args:
        scores: float64 `[..., n]`, those of negatives raised.
        is_positive: bool `[..., n]`.
        indices: int64 `[..., n]`, the images in the gallery.

    Returns:
        int64 `[..., n]`, positions in the last axis, the nearest image first.
    """
    return np.lexsort((indices, is_positive, -scores), axis=-1)
