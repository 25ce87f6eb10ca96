"""Labels as indices of what a loss holds for each class: a boundary, centres, a proxy.

Shapes: B images in the batch.
"""

import tensorflow as tf

from profs_tf.losses.batch import Check


def class_index_checks(labels: tf.Tensor, num_classes: int) -> tuple[Check, ...]:
    """Returns the check that all ``labels`` [B] are whole numbers in 0 ... num_classes - 1.

    A gather does not check this itself: on a GPU it silently reads zeros beyond the end.
    """
    whole = tf.equal(labels, tf.round(labels))
    inside = tf.logical_and(labels >= 0, labels < num_classes)
    message = f"`y_true` must be whole numbers 0 ... {num_classes - 1} where `num_classes` is {num_classes}."
    return (Check(tf.reduce_all(tf.logical_and(whole, inside)), message),)


def class_indices(labels: tf.Tensor, num_classes: int) -> tf.Tensor:
    """Returns ``labels`` [B] as int32 indices, clipped so that a refused label cannot read out of bounds."""
    return tf.cast(tf.clip_by_value(labels, 0, num_classes - 1), tf.int32)
