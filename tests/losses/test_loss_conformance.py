"""The conformance table: what every loss must do, whatever its mining, with and without a query mask."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tests.losses.loss_cases import (
    BUILDERS,
    DIMENSIONS,
    NUM_CLASSES,
    PAIRWISE,
    as_mask,
    build,
    every_loss,
    pairwise_losses,
    unit_rows,
    value_and_gradients,
)

LABELS = np.repeat(np.arange(NUM_CLASSES), 3)
SIZE = len(LABELS)
MASKS = {"plain": None, "profs": np.tile([1.0, 0.0, 0.0], NUM_CLASSES).astype(np.float32)}

both_forms = pytest.mark.parametrize("form", list(MASKS))


def embeddings(seed=0):
    return unit_rows(np.random.default_rng(seed), SIZE)


def check_finite(loss, y, E, mask):
    value, gradients = value_and_gradients(loss, y, E, mask)
    assert np.isfinite(value)
    for gradient in gradients:
        assert np.all(np.isfinite(gradient))
    return value, gradients


def check_reference(case, value, y, E, mask):
    expected = case.reference(np.asarray(E, np.float64), np.asarray(y).tolist(), as_mask(mask, len(y)))
    np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-5)


ZERO_DISTANCES = {
    "two of one class": lambda E: E[[0, 0, *range(2, SIZE)]],
    "two of two classes": lambda E: E[[0, 1, 2, 0, *range(4, SIZE)]],
    "whole batch equal": lambda E: np.repeat(E[:1], SIZE, axis=0),
    "all zero": np.zeros_like,
}


@every_loss
@both_forms
@pytest.mark.parametrize("layout", list(ZERO_DISTANCES))
def test_zero_distances_have_finite_gradients(name, form, layout):
    case, E = build(name), ZERO_DISTANCES[layout](embeddings())
    value, _ = check_finite(case.loss, LABELS, E, MASKS[form])
    if name != "margin_distance_weighted":  # its reference is compared, draws and all, in a file of its own
        check_reference(case, value, LABELS, E, MASKS[form])


@pairwise_losses
@both_forms
def test_no_positive_pair_is_exactly_zero(name, form):
    case, E = build(name), embeddings()[:NUM_CLASSES]
    y = np.arange(NUM_CLASSES)
    mask = None if form == "plain" else np.eye(1, NUM_CLASSES)[0]
    value, gradients = check_finite(case.loss, y, E, mask)
    if "_all" in name:  # its negative pairs need no positive one
        check_reference(case, value, y, E, mask)
    else:
        check_rest_only(case, value, gradients, E)


@every_loss
def test_no_query_is_exactly_zero(name):
    case, E = build(name), embeddings()
    value, gradients = check_finite(case.loss, LABELS, E, np.zeros(SIZE))
    check_rest_only(case, value, gradients, E)


def check_rest_only(case, value, gradients, E):
    """Exactly 0 with zero gradient; of a loss with a part that needs no pairs, that part."""
    rest = case.rest(E.astype(np.float64))
    if rest == 0.0:
        assert float(value) == 0.0
        for gradient in gradients:
            np.testing.assert_array_equal(gradient, 0.0)
    else:
        np.testing.assert_allclose(value, rest, rtol=1e-5)


@every_loss
@both_forms
def test_single_class(name, form):
    """Finite, and what the formula leaves: positive parts of contrastive, margin, SupCon; norms of N-pair."""
    case, E = build(name), embeddings()
    y = np.zeros(SIZE, np.int64)
    value, gradients = check_finite(case.loss, y, E, MASKS[form])
    if (
        name in PAIRWISE
        and not name.startswith(("contrastive", "margin", "sup_con"))
        and "n_pair" not in name
    ):
        check_rest_only(case, value, gradients, E)
    check_reference(case, value, y, E, MASKS[form])


@every_loss
def test_batch_of_one_image(name):
    case, E = build(name), embeddings()[:1]
    for labels in ([2], [[2]]):
        value, _ = check_finite(case.loss, labels, E, None)
        check_reference(case, value, [2], E, None)


@every_loss
def test_empty_batch_is_finite(name):
    """A replica may be left without images at the end of an epoch."""
    value, _ = check_finite(
        build(name).loss, np.zeros([0], np.int64), np.zeros([0, DIMENSIONS], np.float32), None
    )
    assert float(value) == pytest.approx(build(name).rest(np.zeros([1, DIMENSIONS])), rel=1e-5)


@every_loss
@both_forms
def test_order_of_the_batch_is_irrelevant(name, form):
    loss, E = build(name).loss, embeddings()
    order = np.random.default_rng(1).permutation(SIZE)
    mask = MASKS[form]
    value, (gradient, *own) = value_and_gradients(loss, LABELS, E, mask)
    permuted_mask = None if mask is None else mask[order]
    permuted, (permuted_gradient, *permuted_own) = value_and_gradients(
        loss, LABELS[order], E[order], permuted_mask
    )
    np.testing.assert_allclose(permuted, value, rtol=1e-6)
    np.testing.assert_allclose(permuted_gradient, gradient.numpy()[order], rtol=1e-5, atol=1e-6)
    for a, b in zip(permuted_own, own):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@every_loss
@both_forms
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_embeddings_times_100(name, form, dtype):
    """Similarities and logits of 1e4: neither infinity nor NaN, and the right value."""
    case, E = build(name), tf.cast(100.0 * embeddings(), dtype)
    value, _ = check_finite(case.loss, LABELS, E, MASKS[form])
    if name != "margin_distance_weighted":
        check_reference(case, value, LABELS, tf.cast(E, tf.float64).numpy(), MASKS[form])


RUNS = {
    "eager": lambda loss: loss,
    "graph": lambda loss: tf.function(loss),
    "xla": lambda loss: tf.function(loss, jit_compile=True),
}


# The base class makes the value NaN: to compile every loss would repeat it.
COMPILED = ("triplet", "margin_distance_weighted", "soft_triple")


@pytest.mark.parametrize(
    ("name", "run"),
    [(name, "eager") for name in BUILDERS] + [(name, run) for name in COMPILED for run in ("graph", "xla")],
)
@both_forms
def test_embeddings_that_are_not_finite_make_the_value_nan(name, form, run):
    loss = RUNS[run](build(name).loss)
    y, mask = tf.constant(LABELS), None if MASKS[form] is None else tf.constant(MASKS[form])
    assert np.isfinite(loss(y, tf.constant(embeddings()), mask))
    values, places = (np.nan, np.inf, -np.inf), ((0, 0), (4, 2), slice(None))
    for value, place in itertools.product(values, places) if name in COMPILED else zip(values, places):
        E = embeddings()
        E[place] = value
        assert np.isnan(loss(y, tf.constant(E), mask)), (value, place)


@every_loss
def test_config_makes_an_equal_loss(name):
    loss, E = build(name).loss, embeddings()
    config = loss.get_config()
    copy = type(loss).from_config(config)
    assert copy.get_config() == config
    copied_variables = [variable.shape for variable in copy.trainable_variables]
    assert copied_variables == [variable.shape for variable in loss.trainable_variables]
    for variable, original in zip(copy.trainable_variables, loss.trainable_variables):
        variable.assign(original)
    assert float(copy(LABELS, E)) == float(loss(LABELS, E))
    through_keras = tf.keras.losses.deserialize(tf.keras.losses.serialize(loss))
    assert type(through_keras) is type(loss)
    assert through_keras.get_config() == config
