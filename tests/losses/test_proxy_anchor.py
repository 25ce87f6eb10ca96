import math

import numpy as np
from hypothesis import given

from profs_tf import losses
from tests.losses.loss_oracle import check_against_loops, random_batches, variant_settings


@variant_settings
@given(batch=random_batches())
def test_agrees_with_loops(batch):
    check_against_loops("proxy_anchor", batch)


def test_two_classes_by_hand():
    """An image on its own proxy and at a right angle to the other; the means are over 1 and 2 classes."""
    loss = losses.ProxyAnchorLoss(2, 2)
    loss.proxies.assign([[5.0, 0.0], [0.0, 0.1]])
    x = np.array([[1.0, 0.0]], np.float32)
    pull, push = math.log1p(math.exp(-32 * 0.9)), math.log1p(math.exp(32 * 0.1))
    np.testing.assert_allclose(loss([0], x), pull + push / 2, rtol=1e-6)
    pull, push = math.log1p(math.exp(-32 * -0.1)), math.log1p(math.exp(32 * 1.1))
    np.testing.assert_allclose(loss([1], x), pull + push / 2, rtol=1e-6)


def test_proxies_start_at_the_lengths_of_the_published_code():
    """Normal numbers of variance 2 / L, so that a proxy has a length of about sqrt(2 D / L)."""
    lengths = np.linalg.norm(losses.ProxyAnchorLoss(100, 512).proxies, axis=1)
    np.testing.assert_allclose(lengths, math.sqrt(2 * 512 / 100), rtol=1e-5)
