import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from profs_tf.losses.mining import closest_weights


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 6), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_weights_against_an_average_over_orders_of_the_ties(rows, columns, seed):
    """Few distinct distances, so that many tie: the weights are the mean over all ways to break the ties."""
    rng = np.random.default_rng(seed)
    distances = rng.integers(0, 4, [rows, columns]).astype(np.float32)
    candidates = rng.integers(0, 2, [rows, columns]).astype(bool)
    counts = rng.integers(0, columns + 2, rows).astype(np.int32)
    weights = closest_weights(distances, tf.constant(candidates), counts).numpy()
    for r in range(rows):
        values, places = distances[r], min(counts[r], candidates[r].sum())
        for c in range(columns):
            closer = np.sum(candidates[r] & (values < values[c]))
            tied = np.sum(candidates[r] & (values == values[c]))
            expected = np.clip((places - closer) / tied, 0, 1) if candidates[r, c] else 0.0
            np.testing.assert_allclose(weights[r, c], expected, rtol=1e-6)
    np.testing.assert_allclose(weights.sum(axis=1), np.minimum(counts, candidates.sum(axis=1)), rtol=1e-5)
