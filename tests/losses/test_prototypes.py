"""The vectors, one per class, that losses with prototypes give to class mining."""

import numpy as np
import pytest

from profs_tf import losses
from tests.losses.loss_cases import WITH_PROXIES

CLASSES, DIM = 7, 5


def loss_named(name):
    sizes = {"num_classes": CLASSES, "embedding_dim": DIM}
    return losses.get(name, **{key: value for key, value in sizes.items() if key in losses.options(name)})


@pytest.mark.parametrize("name", WITH_PROXIES)
def test_proxies_at_unit_length(name):
    loss = loss_named(name)
    proxies = np.random.default_rng(0).normal(size=(CLASSES, DIM)).astype(np.float32)
    loss.proxies.assign(proxies)
    expected = [proxy / np.sqrt(sum(value**2 for value in proxy)) for proxy in proxies]
    np.testing.assert_allclose(loss.class_vectors(), expected, rtol=1e-5)


def test_mean_direction_of_the_centers():
    loss = loss_named("soft_triple")
    centers = np.random.default_rng(0).normal(size=loss.centers.shape).astype(np.float32)
    loss.centers.assign(centers)
    for found, of_class in zip(loss.class_vectors().numpy(), centers):
        total = sum(center / np.linalg.norm(center) for center in of_class)
        np.testing.assert_allclose(found, total / np.linalg.norm(total), rtol=1e-4, atol=1e-6)


def test_centers_without_a_direction_are_finite():
    loss = loss_named("soft_triple")
    loss.centers.assign(np.zeros(loss.centers.shape))
    assert np.all(loss.class_vectors().numpy() == 0.0)


@pytest.mark.parametrize("name", losses.names())
def test_losses_without_prototypes_have_no_class_vectors(name):
    loss = loss_named(name)
    assert loss.has_prototypes is (name in (*WITH_PROXIES, "soft_triple"))
    assert (loss.class_vectors() is not None) is loss.has_prototypes
