"""What a loss is handed, made uniform: embeddings, labels and the query mask of one batch.

Shapes: B images in the batch, D embedding dimensions.
"""

from typing import Any, NamedTuple, Optional

import tensorflow as tf

# A float holds every whole number below 2 to this power, and no two of them share a value.
_EXACT_BITS = {tf.float64: 53, tf.float32: 24, tf.float16: 11, tf.bfloat16: 8}

_ONE_LABEL_CURE = "Pass one class index per image: for one-hot rows, `tf.argmax(labels, axis=1)`."


class Check(NamedTuple):
    """A condition on the values of a batch, known only when they are."""

    holds: tf.Tensor
    """bool scalar."""
    message: str


class Batch(NamedTuple):
    """One batch, as every loss sees it."""

    embeddings: tf.Tensor
    """[B, D] float32, or float64 where that was handed over."""
    labels: tf.Tensor
    """[B] int64, or float32 or float64 where labels are floats. Equal labels mean: same class."""
    is_query: tf.Tensor
    """[B] bool: who may be the first element of a pair (in PROFS, the representatives)."""
    every_image_is_query: tf.Tensor
    """bool scalar: this is an ordinary batch, without a query mask."""


def read_embeddings(y_pred: Any) -> tf.Tensor:
    """Returns the embeddings as float32, or as float64 where they are float64.

    Args:
        y_pred: [B, D], any floating dtype. Half precision is widened here, so that no loss computes in it;
            float64 is kept for finite differences.

    Raises:
        ValueError: `y_pred` is not floating or not of rank 2.
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
    """Refuses, as far as the static shape tells, anything but [B] and [B, 1]."""
    shape = values.shape
    one_per_row = shape.rank in (None, 1) or (shape.rank == 2 and shape[1] in (None, 1))
    wrong_length = shape.rank and None not in (shape[0], batch_size) and shape[0] != batch_size
    if not one_per_row or wrong_length:
        length = batch_size or "batch"
        raise ValueError(f"`{name}` must have shape [{length}] or [{length}, 1], got {shape}. {cure}")


def _flatten(name: str, values: tf.Tensor, embeddings: tf.Tensor, cure: str) -> tuple[tf.Tensor, Check]:
    """Returns [B] values and the check of what the static shape left open.

    The product of the sizes alone would let [1, B] pass, hence the look at the second one as well.
    """
    _check_static_shape(name, values, embeddings.shape[0], cure)
    shape = tf.shape(values)
    holds = tf.logical_and(tf.equal(tf.size(values), tf.shape(embeddings)[0]), tf.reduce_all(shape[1:] == 1))
    return tf.reshape(values, [-1]), Check(holds, f"`{name}` must have shape [batch] or [batch, 1]. {cure}")


def read_labels(y_true: Any, embeddings: tf.Tensor) -> tuple[tf.Tensor, tuple[Check, ...]]:
    """Returns the labels [B] and the checks of them that need their values.

    Args:
        y_true: [B] or [B, 1] class labels, any integer, bool or float dtype; the static shape may be unknown.
            A float holds labels apart only below 2^24 (float64: 2^53, float16: 2^11, bfloat16: 2^8), and
            Keras casts float labels to the dtype of the model's output; larger ones are refused, not merged.
        embeddings: [B, D], for its batch size.

    Raises:
        ValueError: labels that are not numbers, one-hot or otherwise not one per image.
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
        sample_weight: [B] or [B, 1] of any dtype, non-zero where the image may be a query; None: every image.
        embeddings: [B, D], for its batch size.

    Raises:
        ValueError: a mask that is not one value per image.
    """
    if sample_weight is None:
        return tf.fill(tf.shape(embeddings)[:1], True), ()
    mask = tf.convert_to_tensor(sample_weight)
    cure = "Pass one value per image, non-zero where it may be a query."
    mask, check = _flatten("sample_weight", mask, embeddings, cure)
    return tf.cast(mask, tf.bool), (check,)


def read_batch(y_true: Any, y_pred: Any, sample_weight: Any) -> tuple[Batch, tuple[Check, ...]]:
    """Returns the batch in uniform shape and dtype, and what is still to be checked of its values."""
    embeddings = read_embeddings(y_pred)
    labels, label_checks = read_labels(y_true, embeddings)
    is_query, mask_checks = read_query_mask(sample_weight, embeddings)
    return Batch(embeddings, labels, is_query, tf.reduce_all(is_query)), label_checks + mask_checks
