import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageEnhance

from profs_tf.inputs.augmentation import erase, jitter_colors, random_resized_crop

PIXELS = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)
SMOOTH = np.asarray(Image.fromarray(PIXELS).resize((6, 4)).resize((60, 40), Image.BICUBIC))


KINDS = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)


def seed(number):
    return tf.stack([7, number])


@pytest.mark.parametrize(
    "augment",
    [
        lambda image, number: random_resized_crop(image, 24, seed(number)),
        lambda image, number: jitter_colors(image, 0.4, seed(number)),
        lambda image, number: erase(image, 1.0, seed(number)),
    ],
    ids=["random resized crop", "color jitter", "erasing"],
)
def test_is_a_pure_function_of_image_and_seed(augment):
    image = tf.constant(SMOOTH)
    once, again, other = (augment(image, number).numpy() for number in (1, 1, 2))
    assert once.dtype == np.uint8
    np.testing.assert_array_equal(once, again)
    assert (once != other).any()
    in_graph = tf.function(augment)(image, tf.constant(1)).numpy()
    np.testing.assert_array_equal(once, in_graph)


def test_a_random_resized_crop_has_the_areas_and_ratios_it_states():
    """Read from an image whose red and green are the position, up to the square."""
    y, x = np.mgrid[0:200, 0:200]
    positions = np.stack([x, y, 0 * x], axis=-1).astype(np.uint8)
    areas, ratios = [], []
    for number in range(60):
        found = random_resized_crop(tf.constant(positions), 50, seed(number)).numpy().astype(float)
        # The slope is constant away from the borders, where antialiasing averages fewer pixels.
        width = (found[25, 40, 0] - found[25, 10, 0]) / 30 * 50
        height = (found[40, 25, 1] - found[10, 25, 1]) / 30 * 50
        areas.append(width * height / 200**2)
        ratios.append(width / height)
        assert found.shape == (50, 50, 3)
    assert 0.17 < min(areas) < 0.4
    assert 0.75 < max(areas) < 1.05
    assert 0.7 < min(ratios) < 0.9
    assert 1.1 < max(ratios) < 1.4


def test_colors_are_those_that_pillow_enhances_by_the_same_factors():
    for number in range(5):
        factors = tf.random.stateless_uniform([3], seed(number), 0.6, 1.4).numpy()
        image = Image.fromarray(SMOOTH)
        for kind, factor in zip(KINDS, factors):
            image = kind(image).enhance(float(factor))
        got = jitter_colors(tf.constant(SMOOTH), 0.4, seed(number)).numpy().astype(int)
        # Pillow clips and rounds after each of the three.
        unclipped = (SMOOTH > 10).all(axis=-1) & (np.asarray(image) < 250).all(axis=-1)
        difference = np.abs(got - np.asarray(image).astype(int))[unclipped & (SMOOTH < 180).all(axis=-1)]
        assert difference.size > 500
        assert difference.max() <= 3


def test_without_strength_colors_stay():
    np.testing.assert_array_equal(jitter_colors(tf.constant(PIXELS), 0.0, seed(0)), PIXELS)


def test_one_rectangle_of_the_mean_color_is_erased():
    mean = np.round(PIXELS.reshape(-1, 3).mean(axis=0)).astype(np.uint8)
    areas = []
    for number in range(40):
        found = erase(tf.constant(PIXELS), 1.0, seed(number)).numpy()
        changed = (found != PIXELS).any(axis=-1)
        rows, columns = np.flatnonzero(changed.any(axis=1)), np.flatnonzero(changed.any(axis=0))
        inside = found[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        assert (inside == mean).all()
        areas.append(inside.shape[0] * inside.shape[1] / (40 * 60))
    assert 0.01 < min(areas) < 0.08
    assert 0.18 < max(areas) < 0.28


def test_images_are_erased_as_often_as_asked():
    def changed(probability):
        return sum(
            (erase(tf.constant(PIXELS), probability, seed(number)).numpy() != PIXELS).any()
            for number in range(60)
        )

    assert changed(0.0) == 0
    assert 15 < changed(0.5) < 45
