import math

import numpy as np
from hypothesis import given

from profs_tf import losses
from tests.losses.loss_cases import value_and_gradients
from tests.losses.loss_oracle import check_against_loops, oracle_settings, random_batches


@oracle_settings
@given(batch=random_batches())
def test_agrees_with_loops(batch):
    check_against_loops("multi_similarity", batch)


def test_nothing_left_by_mining_is_zero():
    """Classes far apart, each in one point: no pair is hard, value and gradient are exactly 0."""
    E = np.repeat(np.eye(4, dtype=np.float32), 3, axis=0)
    y = np.repeat(np.arange(4), 3)
    for mask in (None, np.tile([1, 0, 0], 4)):
        value, (gradient,) = value_and_gradients(losses.MultiSimilarityLoss(), y, E, mask)
        assert float(value) == 0.0
        np.testing.assert_array_equal(gradient, 0.0)


def test_images_without_hard_pairs_count_in_the_mean():
    """Class 0 and 1 overlap, class 2 is far: its two images add 0 to the sum and 2 to the number."""
    E = np.array([[1, 0, 0], [0.8, 0.6, 0], [0.96, 0.28, 0], [1, 0, 0], [0, 0, 1], [0, 0, 1]], np.float32)
    loss = losses.MultiSimilarityLoss()
    with_far, without = loss([0, 0, 1, 1, 2, 2], E), loss([0, 0, 1, 1], E[:4])
    assert math.isclose(with_far, without * 4 / 6, rel_tol=1e-5)


def test_mask_leaves_out_pairs_of_two_non_queries():
    """A non-query image keeps only its pairs with queries."""
    E = np.array([[1, 0], [0.8, 0.6], [0.6, 0.8], [0.28, 0.96]], np.float32)
    value = losses.MultiSimilarityLoss(eps=5.0)([0, 0, 1, 1], E, [1, 0, 0, 0])
    s = E.astype(np.float64) @ E.T.astype(np.float64)

    def pull(similarity):
        return math.log1p(math.exp(-2 * (similarity - 0.5))) / 2

    def push(*similarities):
        return math.log1p(sum(math.exp(50 * (value - 0.5)) for value in similarities)) / 50

    # Image 0 has all pairs; 1 only its positive; 2 and 3 only a negative each. Mining needs both kinds.
    np.testing.assert_allclose(value, (pull(s[0, 1]) + push(s[0, 2], s[0, 3])) / 4, rtol=1e-5)
