"""Proposition 4.1 of the paper: at a feasible point the losses of its section 3 are 0."""

import math

import numpy as np
import pytest

from profs_tf import losses
from tests.losses.loss_cases import value_and_gradients

CLASSES, IMAGES = 6, 4
LABELS = np.repeat(np.arange(CLASSES), IMAGES)
MASKS = (None, np.tile([1, 0, 0, 0], CLASSES))


def simplex(within, between):
    """Images of a class at distance ``within`` of one another, of two classes at ``between``.

    A regular simplex of classes, each with a regular simplex of images in dimensions of its own: the squared
    distance of two classes' images is that of the centers plus twice that of an image to its center.
    """
    radius_sq = within**2 / 2 * (1 - 1 / IMAGES)
    centers = np.eye(CLASSES) * math.sqrt((between**2 - 2 * radius_sq) / 2)
    offsets = (np.eye(IMAGES) - 1 / IMAGES) * within / math.sqrt(2)
    E = np.zeros([CLASSES * IMAGES, CLASSES + CLASSES * IMAGES], np.float32)
    E[:, :CLASSES] = np.repeat(centers, IMAGES, axis=0)
    for c in range(CLASSES):
        rows = slice(c * IMAGES, (c + 1) * IMAGES)
        E[rows, CLASSES + c * IMAGES : CLASSES + (c + 1) * IMAGES] = offsets
    return E


# Loss, epsilon+ and epsilon- of the proof, and a point that misses either by a hair.
FEASIBLE = {
    "contrastive": (losses.ContrastiveLoss(margin=1.0), 0.0, 1.0),
    "margin": (losses.MarginLoss(boundary=1.2, margin=0.2), 1.2 - 0.2, 1.2 + 0.2),
    "triplet": (losses.TripletLoss(margin=0.2), 0.9, math.sqrt(0.9**2 + 0.2)),
    "triplet_semi_hard": (losses.TripletLoss(margin=0.2, mining="semi_hard"), 0.9, math.sqrt(0.9**2 + 0.2)),
}


@pytest.mark.parametrize("name", list(FEASIBLE))
@pytest.mark.parametrize("mask", MASKS)
def test_loss_is_zero_inside(name, mask):
    loss, within, between = FEASIBLE[name]
    value, gradients = value_and_gradients(loss, LABELS, simplex(0.999 * within, 1.001 * between), mask)
    assert float(value) == 0.0
    for gradient in gradients:
        np.testing.assert_array_equal(gradient, 0.0)


@pytest.mark.parametrize("name", list(FEASIBLE))
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("missed", ["positive", "negative"])
def test_loss_is_positive_outside(name, mask, missed):
    loss, within, between = FEASIBLE[name]
    points = {"positive": simplex(within + 0.01, between), "negative": simplex(within, between - 0.01)}
    assert float(loss(LABELS, points[missed], mask)) > 1e-5


@pytest.mark.parametrize("mask", MASKS)
def test_distance_weighted_margin_is_zero_inside(mask):
    """All negatives beyond the cutoff as well: drawn evenly, and none costs anything."""
    loss = losses.MarginLoss(mining="distance_weighted")
    value, gradients = value_and_gradients(loss, LABELS, simplex(0.99, 1.41), mask)
    assert float(value) == 0.0
    for gradient in gradients:
        np.testing.assert_array_equal(gradient, 0.0)
