import numpy as np
import pytest
from hypothesis import given

from profs_tf import losses
from tests.losses.loss_oracle import check_against_loops, random_batches, variant_settings


@variant_settings
@given(batch=random_batches())
def test_agrees_with_loops(batch):
    check_against_loops("proxy_nca", batch)


@variant_settings
@given(batch=random_batches())
def test_positive_below_agrees_with_loops(batch):
    check_against_loops("proxy_nca_positive_below", batch)


def test_two_classes_by_hand():
    """x on its own proxy, the other at a right angle: D = 0 and 2 * 3^2."""
    loss = losses.ProxyNCALoss(2, 2)
    loss.proxies.assign([[5.0, 0.0], [0.0, 0.1]])
    x = np.array([[1.0, 0.0]], np.float32)
    np.testing.assert_allclose(loss([0], x), -18.0, rtol=1e-6)
    np.testing.assert_allclose(loss([1], x), 18.0, rtol=1e-6)
    loss.positive_in_denominator = True
    np.testing.assert_allclose(loss([1], x), 18.0 + np.log1p(np.exp(-18.0)), rtol=1e-6)


def test_needs_two_classes():
    with pytest.raises(ValueError, match="`num_classes` must be a whole number >= 2, got 1."):
        losses.ProxyNCALoss(1, 4)
