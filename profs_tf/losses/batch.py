"""Reads the arguments of a loss: the embeddings, labels and query mask of one batch, checked and cast.

Shapes: B images in the batch, N candidates, D embedding dimensions.
"""

from typing import Any, NamedTuple, Optional

import tensorflow as tf

# A float type represents every whole number below 2 to this power exactly.
_EXACT_BITS = {tf.float64: 53, tf.float32: 24, tf.float16: 11, tf.bfloat16: 8}

_ONE_LABEL_CURE = "Pass one class index per image: for one-hot rows, `tf.argmax(labels, axis=1)`."


class Check(NamedTuple):
    """A condition on the values of a batch, which a graph knows only when it runs."""

    holds: tf.Tensor
    """bool scalar."""
    message: str


class Candidates(NamedTuple):
    """Images outside the batch that its queries are paired with, such as those of earlier batches."""

    embeddings: tf.Tensor
    """[N, D], dtype of the batch's embeddings."""
    labels: tf.Tensor
    """[N], dtype of the batch's labels."""
    is_present: tf.Tensor
    """[N] bool: False for rows that hold no image."""


class EmbeddingBatch(NamedTuple):
    """The arguments of a loss in uniform shape and dtype."""

    embeddings: tf.Tensor
    """[B, D] float32, or float64 if they were passed as such."""
    labels: tf.Tensor
    """[B] int64, or float32 or float64 for float labels. Equal labels mean "same class"."""
    is_query: tf.Tensor
    """[B] bool: which images may be the first element of a pair (in PROFS, the representatives)."""
    every_image_is_query: tf.Tensor
    """bool scalar: True for an ordinary batch, without a query mask."""
    representative_pairs: bool = True
    """Whether two queries are a pair; for an ordinary batch they always are."""
    candidates: Optional[Candidates] = None
    """The second elements of all pairs; None: the images of the batch."""

    @property
    def candidate_embeddings(self) -> Optional[tf.Tensor]:
        """[N, D], or None if pairs are within the batch."""
        return None if self.candidates is None else self.candidates.embeddings

    @property
    def candidate_labels(self) -> Optional[tf.Tensor]:
        """[N], or None if pairs are within the batch."""
        return None if self.candidates is None else self.candidates.labels


def read_embeddings(y_pred: Any) -> tf.Tensor:
    """Returns the embeddings as float32, or as float64 if they are float64.

    Args:
        y_pred: [B, D], any floating dtype. Half precision is cast up here, so that no loss computes in it;
            float64 is kept for finite differences.

    Raises:
        ValueError: If `y_pred` is not floating or not of rank 2.
    """
    embeddings = tf.convert_to_tensor(y_pred)
    if not embeddings.dtype.is_floating:
        raise ValueError(f"`y_pred` must be floating embeddings, got {embeddings.dtype.name}.")
    if embeddings.shape.rank not in (None, 2):
        raise ValueError(f"`y_pred` must be embeddings [batch, dimensions], got shape {embeddings.shape}.")
    if embeddings.shape.rank is None:
        embeddings = tf.ensure_shape(embeddings, [None, None])
    return embeddings if embeddings.dtype == tf.float64 else tf.cast(embeddings, tf.float32)


def _check_static_shape(name: str, values: tf.Tensor, batch_size: Optional[int], cure: str) -> None:
    """Raises ValueError if the static shape is neither [B] nor [B, 1]."""
    shape = values.shape
    one_per_row = shape.rank in (None, 1) or (shape.rank == 2 and shape[1] in (None, 1))
    wrong_length = shape.rank and None not in (shape[0], batch_size) and shape[0] != batch_size
    if not one_per_row or wrong_length:
        length = batch_size or "batch"
        raise ValueError(f"`{name}` must have shape [{length}] or [{length}, 1], got {shape}. {cure}")


def _flatten(name: str, values: tf.Tensor, embeddings: tf.Tensor, cure: str) -> tuple[tf.Tensor, Check]:
    """Returns the values as [B], and the check of the shape for when the static one is unknown.

    The number of values alone would let [1, B] pass, hence the check of the second dimension.
    """
    _check_static_shape(name, values, embeddings.shape[0], cure)
    shape = tf.shape(values)
    holds = tf.logical_and(tf.equal(tf.size(values), tf.shape(embeddings)[0]), tf.reduce_all(shape[1:] == 1))
    return tf.reshape(values, [-1]), Check(holds, f"`{name}` must have shape [batch] or [batch, 1]. {cure}")


def read_labels(y_true: Any, embeddings: tf.Tensor) -> tuple[tf.Tensor, tuple[Check, ...]]:
    """Returns the labels [B] and the checks that depend on their values.

    Args:
        y_true: [B] or [B, 1] class labels, any integer, bool or float dtype; the static shape may be unknown.
            Floats distinguish labels only below 2^24 (float64: 2^53, float16: 2^11, bfloat16: 2^8), and Keras
            casts float labels to the dtype of the model's output; larger labels are refused.
        embeddings: [B, D]; gives the batch size.

    Raises:
        ValueError: If labels are not numbers, or not one per image, such as one-hot rows.
    """
    labels = tf.convert_to_tensor(y_true)
    if not (labels.dtype.is_integer or labels.dtype.is_floating or labels.dtype.is_bool):
        raise ValueError(f"`y_true` must be integer or float class labels, got {labels.dtype.name}.")
    labels, shape_check = _flatten("y_true", labels, embeddings, _ONE_LABEL_CURE)
    if not labels.dtype.is_floating:
        return tf.cast(labels, tf.int64), (shape_check,)
    bits = _EXACT_BITS[labels.dtype]
    message = f"`y_true` as {labels.dtype.name} must be below 2^{bits}, or labels merge. Pass integer labels."
    labels = labels if labels.dtype == tf.float64 else tf.cast(labels, tf.float32)
    return labels, (shape_check, Check(tf.reduce_all(tf.abs(labels) < 2.0**bits), message))


def read_query_mask(sample_weight: Any, embeddings: tf.Tensor) -> tuple[tf.Tensor, tuple[Check, ...]]:
    """Returns the query mask [B] bool and the check of its shape.

    Args:
        sample_weight: [B] or [B, 1] of any dtype, non-zero for images that may be a query; None: all may.
        embeddings: [B, D]; gives the batch size.

    Raises:
        ValueError: If the mask does not have one value per image.
    """
    if sample_weight is None:
        return tf.fill(tf.shape(embeddings)[:1], True), ()
    mask = tf.convert_to_tensor(sample_weight)
    cure = "Pass one value per image, non-zero if it may be a query."
    mask, check = _flatten("sample_weight", mask, embeddings, cure)
    return tf.cast(mask, tf.bool), (check,)


def read_batch(y_true: Any, y_pred: Any, sample_weight: Any) -> tuple[EmbeddingBatch, tuple[Check, ...]]:
    """Returns the batch in uniform shape and dtype, and the checks that depend on its values."""
    embeddings = read_embeddings(y_pred)
    labels, label_checks = read_labels(y_true, embeddings)
    is_query, mask_checks = read_query_mask(sample_weight, embeddings)
    return EmbeddingBatch(embeddings, labels, is_query, tf.reduce_all(is_query)), label_checks + mask_checks
