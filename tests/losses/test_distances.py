import numpy as np
import pytest
import tensorflow as tf

from profs_tf import losses
from profs_tf.losses import distances
from profs_tf.losses.batch import EmbeddingBatch
from tests.losses import loss_reference
from tests.losses.loss_cases import unit_rows
from tests.losses.loss_reference import distance_matrix


def gradient_of(function, E):
    E = tf.constant(E)
    with tf.GradientTape() as tape:
        tape.watch(E)
        value = function(E)
    return tape.gradient(value, E).numpy()


@pytest.mark.parametrize(("gap", "tolerance"), [(1e-2, 1e-6), (1e-4, 1e-6), (1e-6, 2e-3)])
def test_near_equal_embeddings_keep_their_distance(gap, tolerance):
    """The usual float32 formula loses distances below 3e-4 of unit vectors altogether."""
    rng = np.random.default_rng(0)
    E = rng.normal(size=[6, 512])
    E /= np.linalg.norm(E, axis=1, keepdims=True)
    step = rng.normal(size=512)
    E[1] = E[0] + gap * step / np.linalg.norm(step)
    E = E.astype(np.float32)
    expected = distance_matrix(E.astype(np.float64))
    d = distances.safe_sqrt(distances.squared_distances(E))
    np.testing.assert_allclose(d, expected, rtol=tolerance)
    gradient = gradient_of(lambda E: distances.safe_sqrt(distances.squared_distances(E))[0, 1], E)
    direction = (E[0].astype(np.float64) - E[1]) / expected[0][1]
    np.testing.assert_allclose(gradient[0], direction, rtol=max(tolerance, 1e-4), atol=1e-5)
    np.testing.assert_allclose(gradient[1], -direction, rtol=max(tolerance, 1e-4), atol=1e-5)


def test_equal_embeddings_are_exactly_zero_apart():
    rng = np.random.default_rng(0)
    E = np.repeat(rng.normal(size=[20, 300]).astype(np.float32), 3, axis=0)
    d_sq = distances.squared_distances(E).numpy()
    equal = np.repeat(np.arange(20), 3)[:, None] == np.repeat(np.arange(20), 3)
    assert np.all(d_sq[equal] == 0.0)
    assert np.all(d_sq[~equal] > 0.0)
    mask = tf.constant(equal, tf.float32)
    gradient = gradient_of(
        lambda E: tf.reduce_sum(mask * distances.safe_sqrt(distances.squared_distances(E))), E
    )
    np.testing.assert_array_equal(gradient, 0.0)


def test_pairs():
    batch = EmbeddingBatch(
        None, tf.constant([3, 3, 5]), tf.constant([True, False, False]), tf.constant(False)
    )
    positives, negatives = distances.query_pairs(batch)
    np.testing.assert_array_equal(positives, [[0, 1, 0], [0, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(negatives, [[0, 0, 1], [0, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(distances.pairs_with_a_query(batch), [[0, 1, 1], [1, 0, 0], [1, 0, 0]])
    np.testing.assert_array_equal(distances.tuple_negatives(batch), [[0, 0, 1], [0, 0, 1], [0, 1, 0]])
    two = batch._replace(is_query=tf.constant([True, False, True]), representative_pairs=False)
    np.testing.assert_array_equal(distances.query_pairs(two)[1], [[0, 0, 0], [0, 0, 0], [0, 1, 0]])
    np.testing.assert_array_equal(distances.pairs_with_a_query(two), [[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    every = batch._replace(is_query=tf.fill([3], True), every_image_is_query=tf.constant(True))
    np.testing.assert_array_equal(distances.tuple_negatives(every), [[0, 0, 1], [0, 0, 1], [1, 1, 0]])


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("contrastive", {}),
        ("contrastive", {"mining": "all"}),
        ("triplet", {}),
        ("triplet", {"mining": "semi_hard"}),
        ("margin", {}),
        ("lifted_structure", {}),
        ("multi_similarity", {}),
        ("sup_con", {}),
    ],
)
def test_losses_without_pairs_of_two_representatives_agree_with_loops(name, options):
    with_pairs, loss = losses.get(name, **options), losses.get(name, **options, representative_pairs=False)
    assert type(loss).from_config(loss.get_config()).representative_pairs is False
    reference = getattr(loss_reference, name)
    if name == "margin":
        options = {"boundaries": [1.2] * 5}
    rng = np.random.default_rng(0)
    differ = []
    for mask in ("one per class", "random", "ones"):
        y, E = rng.permutation(np.repeat(np.arange(5), 3)), unit_rows(rng, 15)
        q = {
            "one per class": np.isin(np.arange(15), np.unique(y, return_index=True)[1]),
            "random": rng.integers(0, 2, 15),
            "ones": np.ones(15),
        }[mask]
        expected = reference(
            E.astype(np.float64), y.tolist(), q.tolist(), **options, representative_pairs=False
        )
        np.testing.assert_allclose(loss(y, E, q), expected, rtol=1e-5)
        differ.append(loss(y, E, q) != with_pairs(y, E, q))
    # In an ordinary batch, where every image is a query, all pairs count.
    assert differ == [True, True, False]
