"""Similarities, distances and pairs within a batch.

Shapes: B images in the batch, D embedding dimensions. Matrices are [B, B]; the row is the query.
Cost of each function: O(B^2 D) multiplications at most, O(B^2) memory.
"""

import tensorflow as tf

from profs_tf.losses.batch import Batch

# A squared distance below this share of the squared norms is rounding of the float64 product.
_ZERO_SHARE = 1e-14


def _gram_matrix(embeddings: tf.Tensor) -> tf.Tensor:
    """Returns E_i . E_j in float64, [B, B].

    In float64 because ||a||^2 + ||b||^2 - 2 a.b cancels: in float32 the distance of near-equal unit vectors
    is off by 3e-4, with the TensorFloat-32 that GPUs use by default by 3e-2. The product is a thousandth of a
    backbone's step; the differences themselves would take O(B^2 D) memory.
    """
    wide = tf.cast(embeddings, tf.float64)
    return tf.matmul(wide, wide, transpose_b=True)


def similarity_matrix(embeddings: tf.Tensor) -> tf.Tensor:
    """Returns the inner products ``s_ij = E_i . E_j``.

    Args:
        embeddings: [B, D].

    Returns:
        [B, B], dtype of ``embeddings``.
    """
    return tf.cast(_gram_matrix(embeddings), embeddings.dtype)


def squared_distances(embeddings: tf.Tensor) -> tf.Tensor:
    """Returns the squared Euclidean distances ``d_ij^2 = ||E_i - E_j||^2``.

    Args:
        embeddings: [B, D].

    Returns:
        [B, B], dtype of ``embeddings``, exactly 0 with zero gradient on the diagonal and between equal
        embeddings.
    """
    gram = _gram_matrix(embeddings)
    norms_sq = tf.linalg.diag_part(gram)
    sums = norms_sq[:, tf.newaxis] + norms_sq[tf.newaxis, :]
    distances_sq = sums - 2.0 * gram
    apart = distances_sq > _ZERO_SHARE * sums
    return tf.cast(tf.where(apart, distances_sq, tf.zeros_like(distances_sq)), embeddings.dtype)


def safe_sqrt(values_sq: tf.Tensor) -> tf.Tensor:
    """Returns the square root, with gradient 0 where the value is 0.

    Of a distance, 0 is a subgradient there: no direction separates two equal points better than another.
    """
    positive = values_sq > 0.0
    roots = tf.sqrt(tf.where(positive, values_sq, tf.ones_like(values_sq)))
    return tf.where(positive, roots, tf.zeros_like(roots))


def same_class(labels: tf.Tensor) -> tf.Tensor:
    """Returns [B, B] bool: the two images have equal labels. True on the diagonal."""
    return tf.equal(labels[:, tf.newaxis], labels[tf.newaxis, :])


def distinct_images(labels: tf.Tensor) -> tf.Tensor:
    """Returns [B, B] bool: False on the diagonal only. Told by position, never by value or by distance 0."""
    return tf.logical_not(tf.eye(tf.shape(labels)[0], dtype=tf.bool))


def query_pairs(batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the pairs (i, j), i != j, whose first element i is a query.

    Returns:
        positives: [B, B] bool, images of one class.
        negatives: [B, B] bool, images of two classes.
    """
    same = same_class(batch.labels)
    is_query = batch.is_query[:, tf.newaxis]
    positives = tf.logical_and(tf.logical_and(same, distinct_images(batch.labels)), is_query)
    return positives, tf.logical_and(tf.logical_not(same), is_query)


def tuple_negatives(batch: Batch) -> tf.Tensor:
    """Returns the negatives of the tuple losses: images of other classes that are no queries.

    Where every image is a query, all images of other classes.

    Returns:
        [B, B] bool. Rows of one class are equal, whether they are queries or not.
    """
    candidates = tf.logical_or(tf.logical_not(batch.is_query), batch.every_image_is_query)
    return tf.logical_and(tf.logical_not(same_class(batch.labels)), candidates[tf.newaxis, :])


def pairs_with_a_query(batch: Batch) -> tf.Tensor:
    """Returns the pairs (i, j), i != j, of which i or j is a query.

    Returns:
        [B, B] bool, symmetric.
    """
    either = tf.logical_or(batch.is_query[:, tf.newaxis], batch.is_query[tf.newaxis, :])
    return tf.logical_and(either, distinct_images(batch.labels))


def cells(columns: tf.Tensor) -> tf.Tensor:
    """Returns the places of the entries (i, columns[i, j]) in a flat [B, B] matrix, [B, B] int32."""
    size = tf.shape(columns)[0]
    return columns + size * tf.range(size)[:, tf.newaxis]


def pick(matrix: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """Returns the entries (i, columns[i, j]) of a matrix.

    Flat, since the gradient of a gather with batch dimensions fails for an empty batch.

    Args:
        matrix: [B, B].
        columns: [B, B] int32.

    Returns:
        [B, B], dtype of ``matrix``.
    """
    return tf.gather(tf.reshape(matrix, [-1]), cells(columns))


def mean_of(terms: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Returns ``sum(weights * terms) / sum(weights)``, exactly 0 with zero gradient where no weight is given.

    Args:
        terms: any shape; finite also where the weight is 0.
        weights: same shape; bool or the dtype of ``terms``.
    """
    weights = tf.cast(weights, terms.dtype)
    return tf.math.divide_no_nan(tf.reduce_sum(weights * terms), tf.reduce_sum(weights))
