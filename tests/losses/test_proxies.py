"""What the losses with one proxy per class share."""

import numpy as np
import pytest
from hypothesis import given, settings

from profs_tf import losses
from tests.losses.loss_cases import NUM_CLASSES, WITH_PROXIES, build, unit_rows, value_and_gradients
from tests.losses.loss_oracle import check_against_loops, random_batches, variant_settings

every_loss_with_proxies = pytest.mark.parametrize("name", WITH_PROXIES)


@pytest.mark.parametrize("name", ["norm_softmax", "cos_face", "arc_face"])
@settings(variant_settings, max_examples=20)
@given(batch=random_batches())
def test_classification_agrees_with_loops(name, batch):
    check_against_loops(name, batch)


@every_loss_with_proxies
def test_length_of_the_proxies_does_not_matter(name):
    loss, E, y = build(name).loss, unit_rows(np.random.default_rng(0), 9), np.arange(9) % NUM_CLASSES
    before = float(loss(y, E))
    loss.proxies.assign(np.linspace(0.1, 7.0, NUM_CLASSES)[:, np.newaxis] * loss.proxies)
    np.testing.assert_allclose(loss(y, E), before, rtol=1e-5)
    loss.proxies.assign(np.zeros(loss.proxies.shape))
    value, gradients = value_and_gradients(loss, y, E)
    assert np.isfinite(value)
    assert all(np.all(np.isfinite(gradient)) for gradient in gradients)


@every_loss_with_proxies
def test_a_mask_leaves_the_queries_only(name):
    """The value of the queries as a batch of their own, and no gradient for other images."""
    loss, E, y = build(name).loss, unit_rows(np.random.default_rng(0), 9), np.arange(9) % 4
    q = np.arange(9) % 3 == 0
    value, (gradient, _) = value_and_gradients(loss, y, E, q)
    np.testing.assert_allclose(value, loss(y[q], E[q]), rtol=1e-6)
    assert np.array_equal(np.any(gradient.numpy() != 0.0, axis=1), q)


@pytest.mark.parametrize("name", [*WITH_PROXIES, "soft_triple"])
def test_embeddings_of_another_size_are_refused(name):
    message = r"`y_pred` must have `embedding_dim` = 4 dimensions, got 6\."
    loss = losses.get(name, num_classes=3, embedding_dim=4)
    with pytest.raises(ValueError, match=message):
        loss([0, 1], unit_rows(np.random.default_rng(0), 2, 6))
