import math

import numpy as np
import pytest

from profs_tf import losses
from tests.losses.loss_cases import unit_rows, value_and_gradients

MARGIN = math.radians(28.6)


def loss_of_two():
    """Two proxies at a right angle: with scale 1 the value is log(1 + exp(-logit)) for an image at 90 degrees
    to the second."""
    loss = losses.ArcFaceLoss(2, 3, scale=1.0)
    loss.proxies.assign([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    return loss


def at_angle(degrees):
    """At an angle to the first proxy, and at 90 degrees to the second."""
    return np.array([[math.cos(math.radians(degrees)), math.sin(math.radians(degrees)), 0.0]])


def logit(degrees):
    angle = math.radians(degrees)
    inside = angle < math.pi - MARGIN
    return math.cos(angle + MARGIN) if inside else math.cos(angle) - MARGIN * math.sin(MARGIN)


def test_logit_falls_with_the_angle_up_to_180_degrees():
    """The margin is in degrees; beyond 151.4 degrees, where the cosine would rise, something else falls."""
    loss, degrees = loss_of_two(), np.linspace(0.0, 180.0, 91)
    E = np.concatenate([at_angle(each) for each in degrees])
    found = [-math.log(math.expm1(loss([0], row[np.newaxis]))) for row in E]
    np.testing.assert_allclose(found, [logit(each) for each in degrees], atol=1e-7)
    assert np.all(np.diff(found) < 0.0)
    assert math.isclose(found[-1], -1.0 - MARGIN * math.sin(MARGIN), abs_tol=1e-7)


@pytest.mark.parametrize("degrees", [0.0, 1e-6, 1e-3, 0.1, 179.999, 180.0])
def test_gradient_is_bounded_where_that_of_acos_is_not(degrees):
    """In float32, and right as far as it distinguishes the angles."""
    for length in (1.0, 3.0):
        E = (length * at_angle(degrees)).astype(np.float32)
        value, gradients = value_and_gradients(loss_of_two(), [0], E)
        np.testing.assert_allclose(value, math.log1p(math.exp(-logit(degrees))), rtol=1e-4)
        for gradient in gradients:
            assert np.linalg.norm(gradient) <= math.sqrt(2)


def test_embeddings_are_scaled_to_unit_length():
    loss, E, y = losses.ArcFaceLoss(3, 4), unit_rows(np.random.default_rng(0), 5, 4), [0, 1, 2, 0, 1]
    np.testing.assert_allclose(loss(y, 7.0 * E), loss(y, E), rtol=1e-5)
