"""Every loss with every mining and variant, each with its reference: the rows of the conformance table."""

import functools
from typing import Callable, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from profs_tf import losses
from tests.losses import loss_reference, proxy_reference

NUM_CLASSES = 8
DIMENSIONS = 6


class Case(NamedTuple):
    loss: losses.MetricLoss
    reference: Callable  # (E float64, y list, q list) -> float
    rest: Callable  # what is left of the value if no image may be a query: (E) -> float


def _nothing(E):
    return 0.0


def _plain(name, reference, **options):
    def build(num_classes, dimensions):
        return Case(losses.get(name, **options), functools.partial(reference, **options), _nothing)

    return build


def boundaries_of(loss, y):
    boundary = loss.boundary.numpy().astype(np.float64)
    return {label: float(boundary[label] if boundary.ndim else boundary) for label in set(y)}


def _margin(**options):
    def build(num_classes, dimensions):
        per_class = {"num_classes": num_classes} if options.get("boundary_per_class") else {}
        loss = losses.MarginLoss(**options, **per_class)
        if per_class:
            loss.boundary.assign(np.linspace(0.8, 1.6, num_classes))

        def reference(E, y, q, chosen=None):
            boundaries, pairs = boundaries_of(loss, y), loss.representative_pairs
            return loss_reference.margin(E, y, q, boundaries, loss.margin, loss.mining, chosen, pairs)

        return Case(loss, reference, _nothing)

    return build


def _soft_triple(**options):
    def build(num_classes, dimensions):
        loss = losses.SoftTripleLoss(num_classes, dimensions, **options)
        centers = loss.centers.numpy().astype(np.float64)

        def reference(E, y, q):
            return proxy_reference.soft_triple(E, y, q, centers, tau=loss.tau)

        return Case(loss, reference, lambda E: reference(E, [0] * len(E), [False] * len(E)))

    return build


def _with_proxies(name, reference, **options):
    def build(num_classes, dimensions):
        loss = losses.get(name, num_classes=num_classes, embedding_dim=dimensions, **options)
        proxies = loss.proxies.numpy().astype(np.float64)
        return Case(loss, functools.partial(reference, proxies=proxies, **options), _nothing)

    return build


BUILDERS = {
    "contrastive": _plain("contrastive", loss_reference.contrastive),
    "contrastive_hard_per_query": _plain("contrastive", loss_reference.contrastive, mining="hard_per_query"),
    "contrastive_all": _plain("contrastive", loss_reference.contrastive, mining="all"),
    "triplet": _plain("triplet", loss_reference.triplet),
    "triplet_semi_hard": _plain("triplet", loss_reference.triplet, mining="semi_hard"),
    "margin": _margin(),
    "margin_per_class": _margin(boundary_per_class=True),
    "margin_hard_per_query": _margin(mining="hard_per_query"),
    "margin_all_fixed_boundary": _margin(mining="all", trainable_boundary=False),
    "margin_distance_weighted": _margin(mining="distance_weighted", seed=3),
    "lifted_structure": _plain("lifted_structure", loss_reference.lifted_structure),
    "n_pair": _plain("n_pair", loss_reference.n_pair),
    "angular": _plain("angular", loss_reference.angular),
    "angular_with_n_pair": _plain("angular", loss_reference.angular, angle=30.0, n_pair_weight=0.5),
    "multi_similarity": _plain("multi_similarity", loss_reference.multi_similarity),
    "soft_triple": _soft_triple(),
    "soft_triple_one_center": _soft_triple(centers_per_class=1),
    "proxy_nca": _with_proxies("proxy_nca", proxy_reference.proxy_nca),
    "proxy_nca_positive_below": _with_proxies(
        "proxy_nca", proxy_reference.proxy_nca, positive_in_denominator=True
    ),
    "proxy_anchor": _with_proxies("proxy_anchor", proxy_reference.proxy_anchor),
    "norm_softmax": _with_proxies("norm_softmax", proxy_reference.norm_softmax),
    "cos_face": _with_proxies("cos_face", proxy_reference.cos_face),
    "arc_face": _with_proxies("arc_face", proxy_reference.arc_face),
    "sup_con": _plain("sup_con", loss_reference.sup_con),
}

WITH_PROXIES = ("proxy_nca", "proxy_anchor", "norm_softmax", "cos_face", "arc_face")
# Losses of pairs of images: without a positive pair, nothing is left.
PAIRWISE = [name for name in BUILDERS if not name.startswith(("soft_triple", *WITH_PROXIES))]

every_loss = pytest.mark.parametrize("name", list(BUILDERS))
pairwise_losses = pytest.mark.parametrize("name", PAIRWISE)


def build(name, num_classes=NUM_CLASSES, dimensions=DIMENSIONS) -> Case:
    return BUILDERS[name](num_classes, dimensions)


def unit_rows(rng, size, dimensions=DIMENSIONS):
    rows = rng.normal(size=[size, dimensions])
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def as_mask(mask, size):
    return [True] * size if mask is None else [bool(value) for value in np.ravel(mask)]


def value_and_gradients(loss, y, embeddings, mask=None):
    """The value, the gradient of the embeddings and those of the loss's own variables, all dense."""
    embeddings = tf.convert_to_tensor(embeddings)
    with tf.GradientTape() as tape:
        tape.watch(embeddings)
        value = loss(y, embeddings, mask)
    gradients = tape.gradient(value, [embeddings, *loss.trainable_variables])
    assert all(gradient is not None for gradient in gradients)
    return value, [tf.convert_to_tensor(gradient) for gradient in gradients]


def identity_model(policy="float32"):
    """Embeds by one linear layer, the identity at first."""
    inputs = tf.keras.Input([DIMENSIONS])
    layer = tf.keras.layers.Dense(
        DIMENSIONS,
        use_bias=False,
        kernel_initializer="identity",
        dtype=tf.keras.mixed_precision.Policy(policy),
    )
    return tf.keras.Model(inputs, layer(inputs))
