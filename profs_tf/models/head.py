"""The head, from pooled features to the embedding, and the embedder divided at its input.

Shapes: B images in a batch, C pooled features, D = ``embedding_dim``.

    images -> backbone -> pooled features [B, C] -> head [B, D] -> embeddings [B, D]
              `EmbedderParts.features` .........    `EmbedderParts.head` ..........

The paper's head is one linear transformation (section 5.2).
"""

from __future__ import annotations

from typing import NamedTuple, Union

import tensorflow as tf

HEAD_LAYER = "head"
HEADS = ("linear", "mlp")


class EmbedderParts(NamedTuple):
    """Two models that share their layers, and so their weights, with the embedder.

    Attributes:
        features: From images to pooled features [B, C].
        head: From pooled features to embeddings [B, D], normalization included.
    """

    features: tf.keras.Model
    head: tf.keras.Model


def build_head(kind: str, num_features: int, embedding_dim: int) -> tf.keras.layers.Layer:
    """Returns the layer "head" with float32 output [B, D].

    Args:
        kind: "linear": one linear transformation. "mlp": a hidden layer of C units with ReLU before it.
        num_features: C.
        embedding_dim: D.
    """
    if kind == "linear":
        return tf.keras.layers.Dense(embedding_dim, dtype="float32", name=HEAD_LAYER)
    return tf.keras.Sequential(
        [
            tf.keras.layers.Dense(num_features, "relu", dtype="float32", name=f"{HEAD_LAYER}_hidden"),
            tf.keras.layers.Dense(embedding_dim, dtype="float32", name=f"{HEAD_LAYER}_output"),
        ],
        name=HEAD_LAYER,
    )


def split_at_head(embedder: tf.keras.Model) -> EmbedderParts:
    """Divides an embedder that `build_embedder` built at the input of its head."""
    names = [layer.name for layer in embedder.layers]
    following = embedder.layers[names.index(HEAD_LAYER) :]
    pooled = following[0].get_input_at(0)
    features = tf.keras.Input(pooled.shape[1:], name="features")
    embeddings = features
    for layer in following:
        embeddings = layer(embeddings)
    return EmbedderParts(
        tf.keras.Model(embedder.inputs, pooled, name="pooled_features"),
        tf.keras.Model(features, embeddings, name="embedder_head"),
    )


def head_variables(
    embedder: tf.keras.Model, head_layer: Union[str, tf.keras.layers.Layer] = HEAD_LAYER
) -> list[tf.Variable]:
    """Returns the trainable variables of the embedder's head.

    Args:
        embedder: A Keras model whose weights exist.
        head_layer: Name of the head among the layers of ``embedder``, nested ones included, or the layer
            itself.

    Raises:
        ValueError: If there is no such layer or several, or it has no trainable variables.
    """
    layer = _find_layer(embedder, head_layer) if isinstance(head_layer, str) else head_layer
    if not layer.trainable_variables:
        raise ValueError(
            f"`head_layer` must have trainable variables, got layer {layer.name!r} with none. "
            "Build the embedder first, or name another layer."
        )
    return list(layer.trainable_variables)


def _find_layer(embedder: tf.keras.Model, name: str) -> tf.keras.layers.Layer:
    layers = [module for module in embedder.submodules if isinstance(module, tf.keras.layers.Layer)]
    found = [layer for layer in layers if layer.name == name]
    if len(found) != 1:
        trainable = ", ".join(layer.name for layer in embedder.layers if layer.trainable_variables)
        raise ValueError(
            f"`head_layer` must name one layer of the embedder, got {name!r}, which names {len(found)}. Pass "
            f"`head_layer=` one of its layers with weights ({trainable}), or a layer, or a list of variables."
        )
    return found[0]
