"""The losses in a stock Keras model: compile, fit, and what the loss itself owns."""

import numpy as np
import pytest
import tensorflow as tf

from profs_tf import losses
from tests.losses.loss_cases import DIMENSIONS, NUM_CLASSES, build, every_loss, identity_model, unit_rows

SIZE = 20  # in batches of 8: the last one is smaller
LABELS = np.tile(np.arange(NUM_CLASSES // 2), 5)
IMAGES = unit_rows(np.random.default_rng(0), SIZE)
QUERIES = np.tile([1.0, 0.0], SIZE // 2)


def fitted(model, dataset):
    return model.fit(dataset, verbose=0).history["loss"][0]


def evaluated(model, dataset):
    return model.evaluate(dataset, verbose=0)


# Losses without and with variables that are also run the other way round.
CROSSED = dict.fromkeys(("triplet", "soft_triple"), ((fitted, None), (evaluated, QUERIES)))


@every_loss
def test_fit_and_evaluate_report_the_loss_unchanged(name):
    """The batches' values, weighted by their images: no scaling by their size or their query masks."""
    loss, model = build(name).loss, identity_model()
    model.compile(tf.keras.optimizers.SGD(0.0), loss=loss, run_eagerly=True)
    batches = [slice(0, 8), slice(8, 16), slice(16, 20)]
    for run, queries in ((fitted, QUERIES), (evaluated, None), *CROSSED.get(name, ())):
        arrays = (IMAGES, LABELS) if queries is None else (IMAGES, LABELS, queries)
        values = [loss(LABELS[b], IMAGES[b], None if queries is None else queries[b]) for b in batches]
        reported = run(model, tf.data.Dataset.from_tensor_slices(arrays).batch(8))
        np.testing.assert_allclose(reported, np.average(values, weights=[8, 8, 4]), rtol=1e-5)


@pytest.mark.parametrize(
    ("dtype", "column"), [("int32", False), ("int64", True), ("uint8", False), ("float32", True)]
)
def test_fit_with_labels_of_any_kind(dtype, column):
    labels = LABELS.astype(dtype)
    labels = labels[:, np.newaxis] if column else labels
    model, loss = identity_model(), losses.TripletLoss()
    model.compile(tf.keras.optimizers.SGD(0.0), loss=loss)
    # A generator of unknown shapes, as user code often has.
    dataset = tf.data.Dataset.from_generator(
        lambda: iter([(IMAGES, labels, QUERIES)]),
        output_types=(tf.float32, dtype, tf.float32),
        output_shapes=([None, DIMENSIONS], [None, 1] if column else [None], [None]),
    )
    reported = model.fit(dataset, verbose=0).history["loss"][0]
    np.testing.assert_allclose(reported, loss(LABELS, IMAGES, QUERIES), rtol=1e-5)


def test_fit_refuses_one_hot_labels():
    model = identity_model()
    model.compile("sgd", loss=losses.ContrastiveLoss())
    with pytest.raises(ValueError, match="`y_true` must have shape .*tf.argmax"):
        model.fit(IMAGES, np.eye(NUM_CLASSES)[LABELS], verbose=0)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_fit_in_mixed_precision(policy):
    loss = losses.MarginLoss()
    model = identity_model(policy)
    optimizer = tf.keras.optimizers.SGD(0.1)
    if policy == "mixed_float16":
        optimizer = tf.keras.mixed_precision.LossScaleOptimizer(optimizer)
    model.compile(optimizer, loss=loss)
    before = model.get_weights()[0]
    half = tf.cast(IMAGES, policy[len("mixed_") :])
    expected = float(loss(LABELS, half, QUERIES))
    reported = model.fit(IMAGES, LABELS, sample_weight=QUERIES, batch_size=SIZE, verbose=0).history["loss"][0]
    np.testing.assert_allclose(reported, expected, rtol=1e-3)
    after = model.get_weights()[0]
    assert np.all(np.isfinite(after))
    assert np.any(after != before)


def test_float_labels_that_keras_rounds_are_refused():
    """Keras casts float labels to the output's dtype: in bfloat16 classes 256 and 257 are one."""
    model = identity_model("mixed_bfloat16")
    model.compile("sgd", loss=losses.TripletLoss())
    with pytest.raises(tf.errors.InvalidArgumentError, match="Pass integer labels"):
        model.fit(IMAGES, LABELS.astype(np.float32) + 255, verbose=0)
    model.fit(IMAGES, LABELS + 255, verbose=0)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_training_lowers_the_loss(jit_compile):
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(4), 8)
    x = (np.eye(4, DIMENSIONS)[y] + 0.8 * rng.normal(size=[32, DIMENSIONS])).astype(np.float32)
    model = identity_model()
    model.compile(tf.keras.optimizers.Adam(0.05), loss=losses.MultiSimilarityLoss(), jit_compile=jit_compile)
    values = model.fit(x, y, batch_size=32, epochs=15, verbose=0).history["loss"]
    assert values[-1] < 0.8 * values[0]
