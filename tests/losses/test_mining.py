"""Mining of negative pairs: the choice against averages and loops, distributions, dependence on the seed."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from profs_tf import losses
from profs_tf.losses.batch import read_batch
from profs_tf.losses.distances import query_pairs, safe_sqrt, squared_distances
from profs_tf.losses.mining import closest_weights, distance_weighted_counts, sampling_weights
from tests.losses.loss_cases import unit_rows, value_and_gradients
from tests.losses.loss_oracle import random_batches, variant_settings
from tests.losses.loss_reference import distance_weighted_negatives, draw_log_weights


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 6), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_weights_against_an_average_over_orders_of_the_ties(rows, columns, seed):
    """Few distinct distances, so that many tie: the weights are the mean over all ways to break the ties."""
    rng = np.random.default_rng(seed)
    distances = rng.integers(0, 4, [rows, columns]).astype(np.float32)
    candidates = rng.integers(0, 2, [rows, columns]).astype(bool)
    counts = rng.integers(0, columns + 2, rows).astype(np.int32)
    weights = closest_weights(distances, tf.constant(candidates), counts).numpy()
    expected = np.zeros([rows, columns])
    for r in range(rows):
        values, places = distances[r].tolist(), min(counts[r], candidates[r].sum())
        of_row = [value for value, is_candidate in zip(values, candidates[r]) if is_candidate]
        for c in np.flatnonzero(candidates[r]):
            closer, tied = sum(value < values[c] for value in of_row), of_row.count(values[c])
            expected[r, c] = min(max((places - closer) / tied, 0), 1)
    np.testing.assert_allclose(weights, expected, rtol=1e-6)
    np.testing.assert_allclose(weights.sum(axis=1), np.minimum(counts, candidates.sum(axis=1)), rtol=1e-5)


def drawn_counts(E, y, q=None, seed=0):
    batch, _ = read_batch(y, E, q)
    distances = safe_sqrt(squared_distances(batch.embeddings))
    return distance_weighted_counts(batch, distances, *query_pairs(batch), seed).numpy()


@variant_settings
@given(batch=random_batches())
def test_draws_agree_with_the_loop(batch):
    weights = drawn_counts(batch.embeddings, batch.labels, batch.mask, seed=7)
    expected = np.zeros_like(weights)
    drawn = distance_weighted_negatives(batch.embeddings, batch.labels.tolist(), batch.mask > 0, seed=7)
    for pair, count in drawn.items():
        expected[pair] = count
    np.testing.assert_array_equal(weights, expected)


@variant_settings
@given(batch=random_batches())
def test_one_negative_for_each_positive(batch):
    weights = drawn_counts(batch.embeddings, batch.labels, batch.mask)
    same = batch.labels[:, None] == batch.labels
    positives = (same.sum(axis=1) - 1) * batch.mask
    np.testing.assert_array_equal(weights.sum(axis=1), positives if not np.all(same) else 0.0)
    assert np.all(weights[same] == 0.0)


@pytest.mark.parametrize("dimensions", [2, 3, 8, 128, 512, 4096])
def test_weights_are_the_inverse_density(dimensions):
    """No overflow for any D; 1/q(d), constant below 0.5, nothing beyond 1.4."""
    d = np.array([[0.0, 0.2, 0.5, 0.7, 0.71, 1.0, 1.39, 1.41, 1.9, 3.0]])
    weights = sampling_weights(tf.constant(d), tf.fill(d.shape, True), dimensions).numpy()[0]
    log_weights = draw_log_weights(dict(enumerate(d[0])), dimensions)
    peak = max(log_weights.values())
    expected = [np.exp(log_weights[k] - peak) if k in log_weights else 0.0 for k in range(d.size)]
    np.testing.assert_allclose(weights, expected, rtol=1e-9, atol=1e-300)
    assert weights[0] == weights[1] == weights[2]
    assert weights.max() == 1.0


def test_all_negatives_beyond_the_cutoff_are_drawn_evenly():
    d = tf.constant([[1.5, 1.9, 0.3, 5.0]], tf.float64)
    weights = sampling_weights(d, tf.constant([[True, True, False, True]]), 64)
    np.testing.assert_array_equal(weights, [[1.0, 1.0, 0.0, 1.0]])
    rng = np.random.default_rng(0)
    E, y = 10.0 * unit_rows(rng, 400, 64), np.arange(400) // 2
    counts = drawn_counts(E, y).sum(axis=0)
    assert counts.sum() == 400
    assert counts.max() < 10


def test_equal_distances_are_drawn_evenly():
    """A whole batch of equal embeddings, and one of equal distances."""
    for E in (np.zeros([30, 8], np.float32), np.eye(30, dtype=np.float32)):
        y = np.arange(30) // 2
        assert drawn_counts(E, y).sum() == 30
        value, gradients = value_and_gradients(losses.MarginLoss(mining="distance_weighted"), y, E)
        assert np.isfinite(value)
        assert all(np.all(np.isfinite(gradient)) for gradient in gradients)


def test_frequencies_of_the_draws():
    """1,000 positives of one query on a circle: each of five negatives as often as 1/q says."""
    angles = np.concatenate([[0.0], 1e-3 * (1 + np.arange(1000) / 1000), [0.55, 0.7, 0.9, 1.2, 1.5]])
    E = np.stack([np.cos(angles), np.sin(angles), 0.0 * angles], axis=1).astype(np.float32)
    y = np.concatenate([np.zeros(1001, np.int64), 1 + np.arange(5)])
    q = (np.arange(1006) == 0).astype(np.float32)
    counts = drawn_counts(E, y, q)[0, 1001:]
    weights = 1.0 / (2 * np.sin(angles[1001:] / 2))  # D = 3: q(d) is proportional to d
    expected = 1000 * weights / weights.sum()
    assert np.sum((counts - expected) ** 2 / expected) < 18.5  # chi-squared of 4 degrees, once in 1,000


def test_draws_depend_on_seed_and_embeddings_only():
    rng = np.random.default_rng(0)
    E, y = unit_rows(rng, 64), np.arange(64) // 4
    first = drawn_counts(E, y)
    np.testing.assert_array_equal(first, drawn_counts(E, y))
    assert np.any(first != drawn_counts(E, y, seed=1))
    moved = E.copy()
    moved[:, 0] = np.nextafter(moved[:, 0], np.float32(2.0))
    assert np.any(first != drawn_counts(moved, y))
    order = rng.permutation(64)
    np.testing.assert_array_equal(drawn_counts(E[order], y[order]), first[np.ix_(order, order)])
