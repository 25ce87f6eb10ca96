"""What a loss owns for each class, such as centers, proxies and boundaries: vectors, and labels as indices.

Shapes: B images in the batch, D embedding dimensions.
"""

from collections.abc import Sequence

import tensorflow as tf

from profs_tf.losses.batch import Check

NUM_CLASSES_CURE = "Pass the number of training classes."
EMBEDDING_DIM_CURE = "Pass the number of dimensions of the embeddings."


def unit_vectors(name: str, shape: Sequence[int], seed: int) -> tf.Variable:
    """Returns a trainable float32 variable of vectors drawn uniformly from the unit sphere.

    Args:
        name: Name of the variable.
        shape: [..., D].
        seed: Seed of the draw.
    """
    directions = tf.random.stateless_normal(shape, seed=[seed, 0])
    return tf.Variable(tf.math.l2_normalize(directions, axis=-1), name=name)


def check_embedding_dim(embeddings: tf.Tensor, embedding_dim: int) -> None:
    """Raises ValueError if ``embeddings`` [B, D] are known not to have ``embedding_dim`` dimensions."""
    if embeddings.shape[1] not in (None, embedding_dim):
        raise ValueError(
            f"`y_pred` must have `embedding_dim` = {embedding_dim} dimensions, got {embeddings.shape[1]}."
        )


def class_index_checks(labels: tf.Tensor, num_classes: int) -> tuple[Check, ...]:
    """Returns the check that all ``labels`` [B] are whole numbers in 0 ... num_classes - 1.

    A gather does not check this: on a GPU it silently reads zeros beyond the end.
    """
    whole = tf.equal(labels, tf.round(labels))
    inside = tf.logical_and(labels >= 0, labels < num_classes)
    message = f"`y_true` must be whole numbers 0 ... {num_classes - 1} where `num_classes` is {num_classes}."
    return (Check(tf.reduce_all(tf.logical_and(whole, inside)), message),)


def class_indices(labels: tf.Tensor, num_classes: int) -> tf.Tensor:
    """Returns ``labels`` [B] as int32 indices, clipped so that an invalid label cannot read out of bounds."""
    return tf.cast(tf.clip_by_value(labels, 0, num_classes - 1), tf.int32)
