"""What every loss accepts as labels, query mask and embeddings, and what it refuses."""

import numpy as np
import pytest
import tensorflow as tf

from profs_tf import losses
from tests.losses.loss_cases import NUM_CLASSES, build, every_loss, unit_rows, value_and_gradients

LABELS = np.repeat(np.arange(NUM_CLASSES), 3)
SIZE = len(LABELS)
MASKS = {"plain": None, "profs": np.tile([1.0, 0.0, 0.0], NUM_CLASSES).astype(np.float32)}
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")

# The base class converts labels and masks; what it makes of them, these use in every way that there is.
ALL_KINDS = ("triplet", "lifted_structure", "margin_per_class", "soft_triple", "proxy_nca")

both_forms = pytest.mark.parametrize("form", list(MASKS))


def embeddings(seed=0):
    return unit_rows(np.random.default_rng(seed), SIZE)


@every_loss
def test_mask_of_ones_is_no_mask(name):
    loss, E = build(name).loss, embeddings()
    value, (gradient, *_) = value_and_gradients(loss, LABELS, E)
    masked, (masked_gradient, *_) = value_and_gradients(loss, LABELS, E, np.ones(SIZE))
    assert float(value) == float(masked)
    np.testing.assert_array_equal(gradient, masked_gradient)


@every_loss
def test_kinds_of_masks(name):
    loss, E, mask = build(name).loss, embeddings(), MASKS["profs"]
    expected = float(loss(LABELS, E, mask))
    kinds = ("bool", "int32", "int64", "uint8", "float16", "float32", "float64")
    for place, dtype in enumerate(kinds if name in ALL_KINDS else kinds[:2]):
        shape = [-1, 1] if place % 2 else [-1]
        assert float(loss(LABELS, E, mask.astype(dtype).reshape(shape))) == expected
    assert float(loss(LABELS, E, -0.25 * mask)) == expected


@every_loss
def test_kinds_of_labels(name):
    loss, E = build(name).loss, embeddings()
    expected = float(loss(LABELS, E))
    kinds = (*INTEGERS, "float16", "bfloat16", "float32", "float64")
    for place, dtype in enumerate(kinds if name in ALL_KINDS else ("int32", "float32")):
        labels = tf.reshape(tf.cast(LABELS, dtype), [-1, 1] if place % 2 else [-1])
        assert float(loss(labels, E)) == expected
    assert float(loss(LABELS.tolist(), E)) == expected


@every_loss
def test_one_hot_labels_are_refused(name):
    loss, E = build(name).loss, embeddings()
    for labels in (np.eye(NUM_CLASSES)[LABELS], np.eye(SIZE), LABELS[np.newaxis], np.zeros([SIZE, 0])):
        with pytest.raises(ValueError, match=r"`y_true` must have shape \[24\] or \[24, 1\], got .*argmax"):
            loss(labels, E)


@every_loss
@both_forms
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_computed_in_float32(name, form, dtype):
    loss, half = build(name).loss, tf.cast(embeddings(), dtype)
    value, (gradient, *own) = value_and_gradients(loss, LABELS, half, MASKS[form])
    assert value.dtype == tf.float32
    assert gradient.dtype == half.dtype
    assert all(variable.dtype == tf.float32 for variable in own)
    wide, (wide_gradient, *_) = value_and_gradients(loss, LABELS, tf.cast(half, tf.float32), MASKS[form])
    assert float(value) == float(wide)
    np.testing.assert_array_equal(gradient, tf.cast(wide_gradient, dtype))


@every_loss
def test_float64_is_computed_in_float64(name):
    loss, E = build(name).loss, embeddings().astype(np.float64)
    value, (gradient, *_) = value_and_gradients(loss, LABELS, E)
    assert value.dtype == gradient.dtype == tf.float64
    if name != "margin_distance_weighted":  # draws are keyed by the bits, which another dtype changes
        np.testing.assert_allclose(value, loss(LABELS, E.astype(np.float32)), rtol=1e-5)


def test_labels_may_be_any_numbers():
    """Negative, not contiguous, beyond 2^31 and 2^53: only equality counts."""
    loss, E = losses.TripletLoss(), embeddings()
    expected = float(loss(LABELS, E))
    for labels in (-LABELS, LABELS * 10**9 - 5, LABELS + 2**53, LABELS - 2**62):
        assert float(loss(labels, E)) == expected
    assert float(loss(LABELS.astype(np.uint64) + np.uint64(2**63), E)) == expected
    assert float(loss(LABELS * 0.25, E)) == expected
    assert float(loss(LABELS % 2 == 0, E)) == float(loss(LABELS % 2, E))


@pytest.mark.parametrize(
    ("dtype", "bits"), [("float16", 11), ("bfloat16", 8), ("float32", 24), ("float64", 53)]
)
def test_float_labels_that_would_merge_are_refused(dtype, bits):
    """2^bits and 2^bits + 1 are one number in this dtype, so neither can be told from the other."""
    loss, E = losses.TripletLoss(), embeddings()[:4]
    largest = tf.cast(tf.constant([0, 0, 2**bits - 1, 2**bits - 1], tf.int64), dtype)
    assert np.isfinite(loss(largest, E))
    assert np.isfinite(loss(-largest, E))
    for labels in (largest + tf.cast([0, 0, 1, 1], dtype), tf.cast([0.0, 0.0, float("nan"), 1.0], dtype)):
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"must be below 2.{bits}, or labels merge"):
            loss(labels, E)
        assert np.isnan(tf.function(loss, autograph=False, jit_compile=True)(labels, E))


def test_refusals_name_the_argument():
    loss, E = losses.TripletLoss(), embeddings()
    with pytest.raises(ValueError, match="`y_true` must be integer or float class labels, got string"):
        loss(["a"] * SIZE, E)
    with pytest.raises(ValueError, match=r"`y_true` must have shape \[24\] or \[24, 1\], got \(23,\)"):
        loss(LABELS[:-1], E)
    with pytest.raises(ValueError, match=r"`y_true` must have shape \[24\] or \[24, 1\], got \(\)"):
        loss(3, E)
    for mask in (np.ones([SIZE, 2]), np.ones([5]), 1.0):
        with pytest.raises(ValueError, match=r"`sample_weight` must have shape \[24\] or \[24, 1\], got"):
            loss(LABELS, E, mask)
    with pytest.raises(ValueError, match=r"`y_pred` must be floating embeddings, got int"):
        loss(LABELS, np.ones([SIZE, 4], np.int32))
    for shape in ([SIZE], [SIZE, 4, 4]):
        with pytest.raises(ValueError, match=r"`y_pred` must be embeddings \[batch, dimensions\], got shape"):
            loss(LABELS, np.ones(shape, np.float32))


def test_one_image_with_a_column_of_one_label():
    """[1, 1] is one label, not a one-hot row."""
    E = embeddings()[:1]
    assert float(losses.TripletLoss()([[1]], E)) == 0.0
    with pytest.raises(ValueError, match="`y_true` must have shape"):
        losses.TripletLoss()([[0, 1]], E)
