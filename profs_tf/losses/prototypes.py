"""Vectors that a loss holds for each class, such as centres and proxies.

Shapes: B images in the batch, C classes, D embedding dimensions.
"""

from collections.abc import Sequence

import tensorflow as tf

NUM_CLASSES_CURE = "Pass the number of training classes."
EMBEDDING_DIM_CURE = "Pass the number of dimensions of the embeddings."


def unit_vectors(name: str, shape: Sequence[int], seed: int) -> tf.Variable:
    """Returns a trainable float32 variable of directions drawn evenly from the sphere.

    Args:
        name: of the variable.
        shape: [..., D].
        seed: the same seed draws the same vectors.
    """
    directions = tf.random.stateless_normal(shape, seed=[seed, 0])
    return tf.Variable(tf.math.l2_normalize(directions, axis=-1), name=name)


def check_embedding_dim(embeddings: tf.Tensor, embedding_dim: int) -> None:
    """Raises ValueError where ``embeddings`` [B, D] are known not to have ``embedding_dim`` dimensions."""
    if embeddings.shape[1] not in (None, embedding_dim):
        raise ValueError(
            f"`y_pred` must have `embedding_dim` = {embedding_dim} dimensions, got {embeddings.shape[1]}."
        )
