import math

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given

from profs_tf import losses
from tests.losses.loss_oracle import check_against_loops, oracle_settings, random_batches


@oracle_settings
@given(batch=random_batches())
def test_agrees_with_loops(batch):
    check_against_loops("lifted_structure", batch)


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_tfa(tfa, seed):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(6), 3))
    E = rng.normal(size=[18, 7]).astype(np.float32)
    expected = tfa.losses.lifted_struct_loss(tf.constant(y), tf.constant(E), margin=1.0)
    np.testing.assert_allclose(losses.LiftedStructureLoss()(y, E), expected, rtol=1e-5)


def test_mask_leaves_out_pairs_of_two_non_queries():
    """Images at 0, 1 (class 0) and 3, 7 (class 1); queries are 0 and 3: the pair of 1 and 7 is left out."""
    E = np.array([[0.0], [1.0], [3.0], [7.0]], np.float32)

    def structure(distances, positive):
        return max(0.0, math.log(sum(math.exp(1.0 - d) for d in distances)) + positive) ** 2 / 2

    # {0, 1}: 0 has 3 and 7; 1 has 3 only. {3, 7}: 3 has 0 and 1; 7 has 0 only.
    expected = (structure([3, 7, 2], 1.0) + structure([3, 2, 7], 4.0)) / 2
    np.testing.assert_allclose(
        losses.LiftedStructureLoss()([0, 0, 1, 1], E, [1, 0, 1, 0]), expected, rtol=1e-5
    )
    # With 0 as the only query, the pair {3, 7} has none and is left out.
    expected = structure([3, 7], 1.0)
    np.testing.assert_allclose(
        losses.LiftedStructureLoss()([0, 0, 1, 1], E, [1, 0, 0, 0]), expected, rtol=1e-5
    )
