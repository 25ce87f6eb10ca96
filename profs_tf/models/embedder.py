"""The embedding function f(.; theta): backbone, global average pooling, linear head, L2 normalization.

Shapes: B images, H x W their height and width in pixels, C channels of the backbone, D = ``embedding_dim``.

    images [B, H, W, 3] -> feature map [B, h, w, C] -> pooled [B, C] -> head [B, D] -> embeddings [B, D]

Paper, section 5.2: the backbone up to its global average pooling, then one linear transformation to 512
values. All layers are stock Keras layers, so that a saved embedder loads wherever TensorFlow is installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional, Union

import tensorflow as tf

from profs_tf import backbones
from profs_tf.backbones.seeding import seed_kernels
from profs_tf.backbones.weights.assign import check_finite
from profs_tf.models.head import HEADS, build_head
from profs_tf.utils.checks import check_count, check_one_of
from profs_tf.utils.legacy_keras import check_keras_2
from profs_tf.utils.option_fields import trained_backbone_layers

FREEZE_BATCH_NORM = ("auto", "none", "statistics", "all")


def build_embedder(
    backbone: Union[str, tf.keras.Model] = "inception_v1",
    embedding_dim: int = 512,
    *,
    head: str = "linear",
    input_size: Optional[int] = None,
    normalize: bool = True,
    pretrained: Optional[str] = None,
    batch_norm_momentum: Optional[float] = None,
    freeze_batch_norm: str = "auto",
    train_layers: str = "all",
    sync_batch_norm: bool = False,
    seed: Optional[int] = None,
) -> tf.keras.Model:
    """Builds a Keras model from images to embeddings.

    Args:
        backbone: A name of ``profs_tf.backbones.names()``, or a Keras model from images [B, H, W, 3] with
            values 0..255 to a feature map [B, h, w, C] or to features [B, C]. Such a model scales its input
            itself.
        embedding_dim: D, the length of an embedding.
        head: "linear", the paper's: one linear transformation. "mlp": before it a hidden layer with ReLU and
            as many units as there are features.
        input_size: Height and width of the images in pixels; None accepts any size.
        normalize: Whether embeddings are scaled to unit length. An all-zero embedding stays zero, and its
            gradient finite.
        pretrained: Published weights of the backbone, a file or a name that it takes; None starts from
            random weights.
        batch_norm_momentum: Share of the old value that the backbone's moving statistics keep at each
            training step; None leaves the choice to the backbone.
        freeze_batch_norm: What training does not change of the backbone's batch normalization. "none": it
            normalizes by the batch and updates its statistics. "statistics": it normalizes by the moving
            statistics, which stay, and learns shift and scale; the backbone then runs in inference mode, so
            dropout in a model passed as ``backbone`` is off too. "all": shift and scale stay as well.
            "auto": "statistics" for a named backbone with pretrained weights, unless batch normalization is
            synchronized; else "none".
        train_layers: What training changes. "all": the whole network. "head": the head alone. "last:N": the
            head and the last N layers with weights of the backbone, batch normalization counted as a layer.
            The batch normalization of the others runs in inference mode. A model passed as ``backbone`` is
            changed.
        sync_batch_norm: Whether batch normalization in training uses the statistics of the whole batch,
            exchanged between replicas, instead of each replica's part. Slower, on one device too.
        seed: Makes the initial weights a pure function of this whole number; None draws them from Keras's
            global generator. A model passed as ``backbone`` keeps its weights.

    Returns:
        A model with the layers "images", the backbone, "pool", "head" and, with ``normalize``, "normalize".
        It takes float or integer images and returns float32 [B, D]. Pooling and what follows compute in
        float32 under every mixed precision policy: half precision loses small distances.

    Raises:
        ValueError: If an argument is out of range or unknown, a loaded weight is not finite, ``backbone`` is
            a model of Keras 3, or an option of named backbones is given while it is a model.
    """
    check_count("embedding_dim", embedding_dim)
    if input_size is not None:
        check_count("input_size", input_size, "None accepts any size.")
    check_keras_2("backbone", backbone)
    check_one_of("freeze_batch_norm", freeze_batch_norm, FREEZE_BATCH_NORM)
    check_one_of("head", head, HEADS)
    num_trained = trained_backbone_layers(train_layers)
    shape = (input_size, input_size, 3)
    if isinstance(backbone, tf.keras.Model):
        _check_own_backbone(pretrained, batch_norm_momentum)
        network, is_pretrained = backbone, False
    else:
        named = backbones.get(backbone)
        network = named(shape, pretrained=pretrained, batch_norm_momentum=batch_norm_momentum, seed=seed)
        is_pretrained = named.is_pretrained(pretrained)
    if freeze_batch_norm == "auto":
        freeze_batch_norm = frozen_by_default(is_pretrained, sync_batch_norm)
    if sync_batch_norm:
        _synchronize_batch_norm(network)
    images = tf.keras.Input(shape, name="images")
    if num_trained is not None:
        _freeze_all_but_last(network, num_trained)
    # With the head alone in training, dropout in the network would only add noise.
    features = _pool(_apply(network, images, "statistics" if num_trained == 0 else freeze_batch_norm))
    if not isinstance(backbone, str):
        check_finite(backbone, "backbone", backbone.name)
    head_layer = build_head(head, features.shape[-1], embedding_dim)
    embeddings = head_layer(features)
    if normalize:
        embeddings = tf.keras.layers.UnitNormalization(dtype="float32", name="normalize")(embeddings)
    embedder = tf.keras.Model(images, embeddings, name="embedder")
    if seed is not None:
        seed_kernels(head_layer, seed)
    return embedder


def frozen_by_default(is_pretrained: bool, sync_batch_norm: bool) -> str:
    """Returns the `freeze_batch_norm` that "auto" stands for.

    The statistics of pretrained weights come from far more images than small batches that hold the same
    representatives for M steps. `sync_batch_norm` asks for the statistics of batches.
    """
    return "statistics" if is_pretrained and not sync_batch_norm else "none"


def _check_own_backbone(pretrained: Optional[str], batch_norm_momentum: Optional[float]) -> None:
    for argument, value in (("pretrained", pretrained), ("batch_norm_momentum", batch_norm_momentum)):
        if value is not None:
            raise ValueError(
                f"`{argument}` must be None when `backbone` is a Keras model, which brings its own weights "
                f"and layers, got {value!r}."
            )


def _synchronize_batch_norm(network: tf.keras.Model) -> None:
    """Makes existing layers exchange their statistics between replicas; saved models keep this."""
    for module in network.submodules:
        if isinstance(module, tf.keras.layers.BatchNormalization):
            # The fused kernel would compute the statistics of its replica alone.
            module.synchronized, module.fused = True, False


def _apply(network: tf.keras.Model, images: tf.Tensor, freeze_batch_norm: str) -> tf.Tensor:
    if freeze_batch_norm == "none":
        return network(images)
    # Keras keeps the argument in the graph: it applies when the embedder is called with training=True.
    features = network(images, training=False)
    if freeze_batch_norm == "all":
        for module in network.submodules:
            if isinstance(module, tf.keras.layers.BatchNormalization):
                module.trainable = False
    return features


def _freeze_all_but_last(network: tf.keras.Model, count: int) -> None:
    """Freezes the layers of a network except the last ``count`` that have weights.

    Raises:
        ValueError: If there are not as many.
    """
    layers = list(_layers_with_weights(network))
    if count > len(layers):
        raise ValueError(
            f"`train_layers` must be last:N with N <= {len(layers)}, the layers with weights of the backbone "
            f"{network.name}, got last:{count}."
        )
    for layer in layers[: len(layers) - count]:
        layer.trainable = False


def _layers_with_weights(network: tf.keras.Model) -> Iterator[tf.keras.layers.Layer]:
    """Yields the layers with weights in the order of computation; nested models are entered."""
    for layer in network.layers:
        if isinstance(layer, tf.keras.Model):
            yield from _layers_with_weights(layer)
        elif layer.weights:
            yield layer


def _pool(features: tf.Tensor) -> tf.Tensor:
    if features.shape.rank == 4:
        return tf.keras.layers.GlobalAveragePooling2D(dtype="float32", name="pool")(features)
    if features.shape.rank == 2:
        return features
    raise ValueError(
        "`backbone` must return a feature map [B, h, w, C] or features [B, C], got an output of shape "
        f"{features.shape}."
    )
