"""ProfsModel, ProfsCallback and the sampler together, against Algorithm 1 replayed by hand."""

import numpy as np
import pytest
import tensorflow as tf

import profs_tf as profs
from profs_tf.models.proximal import DelayedWeight
from tests.models.linear import (
    FEATURES,
    IMAGE_FEATURES,
    LABELS,
    MARGIN,
    RATE,
    WEIGHT,
    batches,
    linear_embedder,
)


class WeightsAfterEveryStep(tf.keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.weights = []

    def on_train_batch_end(self, batch, logs=None):
        self.weights.append([variable.numpy().copy() for variable in self.model.embedder.trainable_variables])


def contrastive_gradient(features, labels, queries, kernel, bias):
    """The gradient of the contrastive loss with hard mining, pair by pair."""
    embeddings = features @ kernel + bias
    terms = []
    for i in np.flatnonzero(queries):
        distance = {j: np.linalg.norm(embeddings[i] - embeddings[j]) for j in range(len(labels)) if j != i}
        positives = [j for j in distance if labels[j] == labels[i]]
        negatives = sorted((j for j in distance if labels[j] != labels[i]), key=distance.get)[
            : len(positives)
        ]
        # d(d^2) = 2 (e_i - e_j);  d((margin - d)^2) = -2 (margin - d) / d (e_i - e_j)
        terms += [(i, j, 2.0) for j in positives]
        terms += [(i, j, min(0.0, -2.0 * (MARGIN - distance[j]) / distance[j])) for j in negatives]
    gradient = np.zeros_like(embeddings)
    for i, j, factor in terms:
        gradient[i] += factor * (embeddings[i] - embeddings[j]) / len(terms)
        gradient[j] -= factor * (embeddings[i] - embeddings[j]) / len(terms)
    return features.T @ gradient, gradient.sum(axis=0)


def replay(sampler, num_steps, weights, lagged=False, first_pull=0):
    weights = [np.array(part) for part in weights]
    anchor = [part.copy() for part in weights]
    history = []
    for step in range(num_steps):
        if step % sampler.steps_per_projection == 0 and not lagged:
            anchor = [part.copy() for part in weights]
        batch = sampler.batch(step)
        gradients = contrastive_gradient(
            IMAGE_FEATURES[batch.indices], batch.labels, batch.is_representative, *weights
        )
        before = [part.copy() for part in weights]
        pull = WEIGHT if step >= first_pull else 0.0
        weights = [w - RATE * (g + pull * (w - a)) for w, g, a in zip(weights, gradients, anchor)]
        if lagged:
            anchor = before
        history.append(weights)
    return history


def trained(sampler, num_steps, proximal_weight=WEIGHT, mining="hard", **compile_options):
    model = profs.ProfsModel(linear_embedder(), proximal_weight)
    loss = profs.losses.ContrastiveLoss(MARGIN, mining)
    model.compile(tf.keras.optimizers.SGD(RATE), loss, **compile_options)
    recorder = WeightsAfterEveryStep()
    model.fit(
        batches(sampler, num_steps),
        steps_per_epoch=num_steps,
        callbacks=[profs.ProfsCallback(sampler), recorder],
        verbose=0,
    )
    return model, recorder.weights


def assert_same_history(expected, got, every=1):
    assert len(got) == len(expected) // every
    for step, weights in enumerate(got):
        for ours, reference in zip(weights, expected[(step + 1) * every - 1]):
            np.testing.assert_allclose(ours, reference, rtol=1e-6, err_msg=f"after step {step}")


def test_three_projections_of_algorithm_1():
    sampler = profs.BatchSampler(LABELS, 6, 2, seed=3)
    num_steps = 3 * sampler.steps_per_projection
    assert sampler.steps_per_projection == 10
    expected = replay(sampler, num_steps, linear_embedder().get_weights())
    model, got = trained(sampler, num_steps)
    assert_same_history(expected, got)
    assert int(model.proximal.projection_index) == 2
    assert int(model.step) == num_steps


@pytest.mark.parametrize("steps_per_execution", [2, 5, 10])
def test_several_steps_in_one_execution_are_the_same_steps(steps_per_execution):
    sampler = profs.BatchSampler(LABELS, 6, 2, seed=3)
    expected = replay(sampler, 30, linear_embedder().get_weights())
    _, got = trained(sampler, 30, steps_per_execution=steps_per_execution)
    assert_same_history(expected, got, every=steps_per_execution)


def test_one_step_projections_lag_one_step():
    sampler = profs.BatchSampler(LABELS, 6, 2, seed=3, steps_per_projection=1)
    expected = replay(sampler, 12, linear_embedder().get_weights(), lagged=True)
    model, got = trained(sampler, 12)
    assert_same_history(expected, got)
    assert int(model.proximal.projection_index) == 11


def test_the_first_projection_may_have_no_pull():
    sampler = profs.BatchSampler(LABELS, 6, 2, seed=3)
    expected = replay(sampler, 25, linear_embedder().get_weights(), first_pull=10)
    model, got = trained(sampler, 25, proximal_weight=DelayedWeight(WEIGHT, 10))
    assert_same_history(expected, got)
    again = profs.ProfsModel.from_config(model.get_config())
    assert again.get_config()["proximal_weight"] == model.get_config()["proximal_weight"]


def test_the_pull_alone_on_ordinary_batches():
    """Projections of M steps whose batches are the baseline's: every image is a query, nothing is reused."""
    ordinary = {"batch_size": 6, "images_per_class": 2, "seed": 3, "queries": "all"}
    sampler = profs.BatchSampler(LABELS, **ordinary, steps_per_projection=4, representative_reuse=False)
    expected = replay(sampler, 12, linear_embedder().get_weights())
    model, got = trained(sampler, 12, mining="hard_per_query")
    assert_same_history(expected, got)
    assert int(model.proximal.projection_index) == 2


def test_a_second_fit_goes_on_where_the_first_ended():
    expected = replay(profs.BatchSampler(LABELS, 6, 2, seed=3), 25, linear_embedder().get_weights())
    sampler = profs.BatchSampler(LABELS, 6, 2, seed=3)
    model, first = trained(sampler, 13)
    recorder = WeightsAfterEveryStep()
    sampler.first_step = 13
    model.fit(
        batches(sampler, 12),
        steps_per_epoch=12,
        callbacks=[profs.ProfsCallback(sampler), recorder],
        verbose=0,
    )
    assert_same_history(expected, first + recorder.weights)


def test_without_penalty_one_projection_is_plain_fit_bit_for_bit():
    sampler = profs.BatchSampler(LABELS, 6, 2, seed=3, steps_per_projection=1000)
    ours = profs.ProfsModel(linear_embedder(), proximal_weight=0.0)
    plain = linear_embedder()
    for model, callbacks in ((ours, [profs.ProfsCallback(sampler)]), (plain, [])):
        model.compile(tf.keras.optimizers.Adam(0.01), profs.losses.ContrastiveLoss(margin=MARGIN))
        model.fit(batches(sampler, 20), steps_per_epoch=20, callbacks=callbacks, verbose=0)
    for a, b in zip(ours.embedder.get_weights(), plain.get_weights()):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("steps_per_execution", "steps"), [(3, 30), (4, 40), (20, 40)])
def test_executions_that_would_miss_a_swap_are_refused(steps_per_execution, steps):
    sampler = profs.BatchSampler(LABELS, 6, 2, seed=3)
    with pytest.raises(
        ValueError, match=f"`steps_per_execution` must divide .* = 10, got {steps_per_execution}"
    ):
        trained(sampler, steps, steps_per_execution=steps_per_execution)


def test_an_epoch_that_would_shorten_an_execution_is_refused():
    with pytest.raises(ValueError, match=r"`steps_per_epoch` must be a multiple of .* = 5, got 12"):
        trained(profs.BatchSampler(LABELS, 6, 2), 12, steps_per_execution=5)


def test_penalty_without_a_callback_is_refused():
    sampler = profs.BatchSampler(LABELS, 6, 2)
    model = profs.ProfsModel(linear_embedder())
    model.compile(tf.keras.optimizers.SGD(RATE), profs.losses.ContrastiveLoss())
    with pytest.raises(ValueError, match="`proximal_weight` > 0 needs the anchor weights moved"):
        model.fit(batches(sampler, 2), steps_per_epoch=2, verbose=0)


def test_a_loss_that_is_not_finite_stops_the_run_and_names_the_step():
    sampler = profs.BatchSampler(LABELS, 6, 2)

    def rows():
        for batch in sampler:
            factor = np.nan if batch.step == 7 else 1.0
            yield factor * IMAGE_FEATURES[batch.indices], batch.labels, batch.is_representative

    signature = tuple(
        tf.TensorSpec(shape, kind)
        for shape, kind in (([6, FEATURES], tf.float64), ([6], tf.int64), ([6], tf.float32))
    )
    model = profs.ProfsModel(linear_embedder())
    model.compile(tf.keras.optimizers.SGD(RATE), profs.losses.ContrastiveLoss())
    with pytest.raises(ArithmeticError, match="The embeddings are not finite since step 7"):
        model.fit(
            tf.data.Dataset.from_generator(rows, output_signature=signature),
            steps_per_epoch=20,
            callbacks=[profs.ProfsCallback(sampler)],
            verbose=0,
        )


def test_lambda_may_decay():
    schedule = tf.keras.optimizers.schedules.ExponentialDecay(WEIGHT, 10, 0.5, staircase=True)
    sampler = profs.BatchSampler(LABELS, 6, 2)
    model = profs.ProfsModel(linear_embedder(), proximal_weight=schedule)
    model.compile(tf.keras.optimizers.SGD(RATE), profs.losses.ContrastiveLoss())
    model.fit(batches(sampler, 15), steps_per_epoch=15, callbacks=[profs.ProfsCallback(sampler)], verbose=0)
    difference = [v - a for v, a in zip(model.embedder.trainable_variables, model.proximal.anchor_weights)]
    penalty, gradients = model.proximal.penalty_and_gradients(model.embedder.trainable_variables, model.step)
    squares = sum(float(tf.reduce_sum(part**2)) for part in difference)
    assert float(penalty) == pytest.approx(WEIGHT / 2 / 2 * squares, rel=1e-5)
    np.testing.assert_allclose(gradients[0], WEIGHT / 2 * difference[0], rtol=1e-6)


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_proximal_weight_out_of_range_is_refused(weight):
    with pytest.raises(ValueError, match=f"`proximal_weight` must be >= 0 and finite, got {weight}"):
        profs.ProfsModel(linear_embedder(), proximal_weight=weight)


def test_an_embedder_without_weights_is_refused():
    with pytest.raises(ValueError, match="`embedder` must be built"):
        profs.ProfsModel(tf.keras.Sequential([tf.keras.layers.Dense(3)]))
