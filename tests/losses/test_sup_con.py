import math

import numpy as np
from hypothesis import given

from profs_tf import losses
from tests.losses.loss_cases import unit_rows
from tests.losses.loss_oracle import check_against_loops, random_batches, variant_settings


@variant_settings
@given(batch=random_batches())
def test_agrees_with_loops(batch):
    check_against_loops("sup_con", batch)


def test_queries_without_a_positive_are_left_out_of_the_mean():
    """They are negatives nevertheless."""
    E, loss = np.eye(3, dtype=np.float32)[[0, 0, 1, 2]], losses.SupConLoss(temperature=0.5)
    np.testing.assert_allclose(loss([0, 0, 1, 2], E), math.log(math.exp(2) + 2) - 2, rtol=1e-6)


def test_mask_leaves_the_queries_rows():
    E, y = unit_rows(np.random.default_rng(0), 6), np.array([0, 0, 1, 1, 2, 2])
    loss = losses.SupConLoss()
    rows = [float(loss(y, E, np.eye(6)[i])) for i in range(6)]
    np.testing.assert_allclose(loss(y, E, [1, 0, 1, 0, 0, 0]), (rows[0] + rows[2]) / 2, rtol=1e-5)
    np.testing.assert_allclose(loss(y, E), np.mean(rows), rtol=1e-5)
