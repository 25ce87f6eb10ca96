"""The loss that `evaluate` and `fit(validation_data=...)` report."""

import numpy as np
import pytest
import tensorflow as tf

import profs_tf as profs
from tests.models.linear import DIM, FEATURES, LABELS, batches, compiled_model


@pytest.mark.parametrize("with_mask", [True, False])
def test_evaluate_gives_the_mean_loss_of_the_batches(with_mask):
    model, sampler = compiled_model(run_eagerly=not with_mask), profs.BatchSampler(LABELS, 6, 2, seed=3)
    data = batches(sampler, 4)
    if not with_mask:
        data = data.map(lambda images, labels, mask: (images, labels))
    expected = [
        model.metric_loss(labels, model.embedder(images), *mask).numpy() for images, labels, *mask in data
    ]
    before = model.embedder.get_weights()
    assert np.mean(expected) > 0
    assert model.evaluate(data, verbose=0) == pytest.approx(np.mean(expected), rel=1e-6)
    assert model.evaluate(data, verbose=0, return_dict=True) == {
        "loss": pytest.approx(np.mean(expected), rel=1e-6)
    }
    assert model.steps_taken == 0
    for weights, unchanged in zip(model.embedder.get_weights(), before):
        np.testing.assert_array_equal(weights, unchanged)


def test_evaluate_runs_the_embedder_in_inference_mode_and_counts_its_regularization():
    images = tf.keras.Input([FEATURES], dtype="float64")
    x = tf.keras.layers.Dropout(0.9, dtype="float64")(images)
    regularizer = tf.keras.regularizers.L2(0.125)
    x = tf.keras.layers.Dense(DIM, name="head", dtype="float64", kernel_regularizer=regularizer)(x)
    model, sampler = compiled_model(tf.keras.Model(images, x)), profs.BatchSampler(LABELS, 6, 2, seed=3)
    ((images, labels, mask),) = batches(sampler, 1)
    kernel = model.embedder.get_layer("head").kernel
    expected = model.metric_loss(labels, model.embedder(images), mask) + 0.125 * tf.reduce_sum(kernel**2)
    assert model.evaluate(images, labels, 6, 0, mask) == pytest.approx(float(expected), rel=1e-6)


def test_validation_data_is_evaluated_after_each_epoch_and_leaves_the_training_loss_alone():
    def fitted(**options):
        sampler = profs.BatchSampler(LABELS, 6, 2, seed=3)
        model = compiled_model(run_eagerly=True)
        callbacks = [profs.ProfsCallback(sampler)]
        history = model.fit(
            batches(sampler, 6), epochs=2, steps_per_epoch=3, callbacks=callbacks, verbose=0, **options
        )
        return model, history.history

    held_out = batches(profs.BatchSampler(LABELS, 6, 2, seed=4), 3)
    model, history = fitted(validation_data=held_out)
    assert history["val_loss"][1] == pytest.approx(model.evaluate(held_out, verbose=0), rel=1e-6)
    assert history["val_loss"][0] != history["val_loss"][1]
    assert "val_proximal_penalty" not in history
    _, without = fitted()
    for name in ("loss", "proximal_penalty"):
        assert history[name] == without[name]
