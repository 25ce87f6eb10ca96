"""Similarities, distances and pairs within a batch, or of a batch and candidates outside it.

Shapes: B images in the batch, D embedding dimensions, N candidates: N = B, the images of the batch, unless it
has candidates of its own. Matrices are [B, N]; the row is the query.
Cost of each function: O(B N D) multiplications at most, O(B N) memory.
"""

from typing import Optional

import tensorflow as tf

from profs_tf.losses.batch import EmbeddingBatch

# A squared distance below this share of the squared norms is rounding of the float64 product.
_ZERO_SHARE = 1e-14


def _gram_matrix(embeddings: tf.Tensor, candidates: Optional[tf.Tensor]) -> tf.Tensor:
    """Returns E_i . E_j in float64, [B, N].

    In float64 because ||a||^2 + ||b||^2 - 2 a.b cancels: for nearly equal unit vectors the distance is off by
    3e-4 in float32, and by 3e-2 in TensorFloat-32, the default on GPUs. The product costs a thousandth of the
    backbone's step; computing the differences themselves would take O(B^2 D) memory.
    """
    wide = tf.cast(embeddings, tf.float64)
    others = wide if candidates is None else tf.cast(candidates, tf.float64)
    return tf.matmul(wide, others, transpose_b=True)


def similarity_matrix(embeddings: tf.Tensor, candidates: Optional[tf.Tensor] = None) -> tf.Tensor:
    """Returns the inner products ``s_ij = E_i . E_j``.

    Args:
        embeddings: [B, D].
        candidates: [N, D], the second elements of the pairs; None: ``embeddings``.

    Returns:
        [B, N], dtype of ``embeddings``.
    """
    return tf.cast(_gram_matrix(embeddings, candidates), embeddings.dtype)


def _norms_sq(embeddings: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.square(tf.cast(embeddings, tf.float64)), axis=1)


def squared_distances(embeddings: tf.Tensor, candidates: Optional[tf.Tensor] = None) -> tf.Tensor:
    """Returns the squared Euclidean distances ``d_ij^2 = ||E_i - E_j||^2``.

    Args:
        embeddings: [B, D].
        candidates: [N, D], the second elements of the pairs; None: ``embeddings``.

    Returns:
        [B, N], dtype of ``embeddings``, exactly 0 with zero gradient on the diagonal and between equal
        embeddings.
    """
    gram = _gram_matrix(embeddings, candidates)
    if candidates is None:
        of_queries = of_candidates = tf.linalg.diag_part(gram)
    else:
        of_queries, of_candidates = _norms_sq(embeddings), _norms_sq(candidates)
    sums = of_queries[:, tf.newaxis] + of_candidates[tf.newaxis, :]
    distances_sq = sums - 2.0 * gram
    apart = distances_sq > _ZERO_SHARE * sums
    return tf.cast(tf.where(apart, distances_sq, tf.zeros_like(distances_sq)), embeddings.dtype)


def safe_sqrt(values_sq: tf.Tensor) -> tf.Tensor:
    """Returns the square root, with gradient 0 at 0.

    For a distance, 0 is a subgradient there: no direction separates two equal points better than another.
    """
    positive = values_sq > 0.0
    roots = tf.sqrt(tf.where(positive, values_sq, tf.ones_like(values_sq)))
    return tf.where(positive, roots, tf.zeros_like(roots))


def same_class(labels: tf.Tensor, candidates: Optional[tf.Tensor] = None) -> tf.Tensor:
    """Returns [B, N] bool: True if the two images have equal labels. So has the diagonal of a batch."""
    others = labels if candidates is None else candidates
    return tf.equal(labels[:, tf.newaxis], others[tf.newaxis, :])


def distinct_images(labels: tf.Tensor) -> tf.Tensor:
    """Returns [B, B] bool: False on the diagonal only. Images differ by position, whatever their distance."""
    return tf.logical_not(tf.eye(tf.shape(labels)[0], dtype=tf.bool))


def _partners(batch: EmbeddingBatch) -> tf.Tensor:
    """Returns [B] bool: the images that are no query; all if every image is a query."""
    return tf.logical_or(tf.logical_not(batch.is_query), batch.every_image_is_query)


def query_pairs(batch: EmbeddingBatch) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the pairs (i, j), i != j, whose first element i is a query.

    Without `representative_pairs`, j is none, unless every image is a query. If the batch has candidates,
    j is one of these, and no query.

    Returns:
        positives: [B, N] bool, the pairs of one class.
        negatives: [B, N] bool, the pairs of two classes.
    """
    same = same_class(batch.labels, batch.candidate_labels)
    if batch.candidates is not None:
        pairs = pairs_with_a_query(batch)
        return tf.logical_and(pairs, same), tf.logical_and(pairs, tf.logical_not(same))
    allowed = batch.is_query[:, tf.newaxis]
    if not batch.representative_pairs:
        allowed = tf.logical_and(allowed, _partners(batch)[tf.newaxis, :])
    positives = tf.logical_and(tf.logical_and(same, distinct_images(batch.labels)), allowed)
    return positives, tf.logical_and(tf.logical_not(same), allowed)


def tuple_negatives(batch: EmbeddingBatch) -> tf.Tensor:
    """Returns the negatives of N-pair and angular loss: the non-query images of other classes.

    If every image is a query, all images of other classes.

    Returns:
        [B, B] bool. The rows of one class are equal, of queries and of other images.
    """
    return tf.logical_and(tf.logical_not(same_class(batch.labels)), _partners(batch)[tf.newaxis, :])


def pairs_with_a_query(batch: EmbeddingBatch) -> tf.Tensor:
    """Returns the pairs (i, j), i != j, of which i or j is a query.

    Without `representative_pairs`, not both are, unless every image is a query. If the batch has candidates,
    i is a query and j one of these.

    Returns:
        [B, N] bool; symmetric within a batch.
    """
    if batch.candidates is not None:
        return tf.logical_and(batch.is_query[:, tf.newaxis], batch.candidates.is_present[tf.newaxis, :])
    either = tf.logical_or(batch.is_query[:, tf.newaxis], batch.is_query[tf.newaxis, :])
    if not batch.representative_pairs:
        partners = _partners(batch)
        either = tf.logical_and(either, tf.logical_or(partners[:, tf.newaxis], partners[tf.newaxis, :]))
    return tf.logical_and(either, distinct_images(batch.labels))
