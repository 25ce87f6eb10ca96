import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.preprocessing import (
    Preprocessing,
    crop_to_box,
    prepare_for_evaluation,
    prepare_for_training,
    preprocessing_for,
)

PIXELS = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)


def test_evaluation_takes_the_central_crop():
    got = prepare_for_evaluation(tf.constant(PIXELS), Preprocessing(resize=0, crop=20))
    np.testing.assert_array_equal(got, PIXELS[10:30, 20:40])


def test_scaling_matches_pillow_to_two_gray_levels():
    smooth = np.asarray(Image.fromarray(PIXELS).resize((8, 8)).resize((60, 40), Image.BICUBIC))
    got = prepare_for_evaluation(tf.constant(smooth), Preprocessing(resize=24, crop=24))
    expected = np.asarray(Image.fromarray(smooth).resize((24, 24), Image.BILINEAR))
    assert np.abs(got.numpy().astype(int) - expected.astype(int)).max() <= 2


@pytest.mark.parametrize(
    ("aspect", "square"),
    [
        ("crop", PIXELS[:, 10:50]),
        ("pad", np.pad(PIXELS, [(10, 10), (0, 0), (0, 0)], constant_values=127)),
    ],
)
def test_the_aspect_ratio_is_kept_by_a_square_crop_or_a_border(aspect, square):
    kept = Preprocessing(resize=24, crop=20, aspect=aspect)
    stretched = Preprocessing(resize=24, crop=20)
    for image, expected in ((PIXELS, square), (PIXELS.swapaxes(0, 1), square.swapaxes(0, 1))):
        np.testing.assert_array_equal(
            prepare_for_evaluation(tf.constant(image), kept),
            prepare_for_evaluation(tf.constant(expected), stretched),
        )
        np.testing.assert_array_equal(
            prepare_for_training(tf.constant(image), kept, [1, 2]),
            prepare_for_training(tf.constant(expected), stretched, [1, 2]),
        )


def test_training_crop_is_a_window_of_the_padded_image():
    preprocessing = Preprocessing(resize=0, crop=30, shift=4)
    padded = np.pad(PIXELS, [(4, 4), (4, 4), (0, 0)], mode="symmetric")
    windows = {}
    for top in range(19):
        for left in range(39):
            window = padded[top : top + 30, left : left + 30]
            windows[window.tobytes()] = (top, left, False)
            windows[window[:, ::-1].tobytes()] = (top, left, True)
    drawn = [
        windows[prepare_for_training(tf.constant(PIXELS), preprocessing, [3, seed]).numpy().tobytes()]
        for seed in range(150)
    ]
    tops, lefts, mirrored = (np.array(column) for column in zip(*drawn))
    assert tops.min() <= 1
    assert tops.max() >= 17
    assert lefts.min() <= 2
    assert lefts.max() >= 36
    assert 50 < mirrored.sum() < 100


def test_training_is_a_pure_function_of_the_seed():
    preprocessing = Preprocessing(resize=32, crop=24)
    once, again, other = (
        prepare_for_training(tf.constant(PIXELS), preprocessing, seed).numpy()
        for seed in ([1, 2], [1, 2], [1, 3])
    )
    np.testing.assert_array_equal(once, again)
    assert (once != other).any()


def test_augmentation_is_of_training_only_and_leaves_crop_and_flip_as_they_were():
    image = tf.constant(PIXELS)
    plain = Preprocessing(resize=32, crop=24)
    erased = Preprocessing(resize=32, crop=24, erasing=1.0)
    jittered = Preprocessing(resize=32, crop=24, color_jitter=0.5)
    resized = Preprocessing(resize=32, crop=24, augmentation="random_resized_crop")
    before = prepare_for_training(image, plain, [1, 2]).numpy()
    same = (prepare_for_training(image, erased, [1, 2]).numpy() == before).all(axis=-1)
    assert 0.7 < same.mean() < 0.99
    for preprocessing in (jittered, resized):
        assert (prepare_for_training(image, preprocessing, [1, 2]).numpy() != before).any()
        np.testing.assert_array_equal(
            prepare_for_evaluation(image, preprocessing), prepare_for_evaluation(image, plain)
        )


def test_flipping_can_be_turned_off():
    preprocessing = Preprocessing(resize=0, crop=40, mirror=False)
    square = PIXELS[:, :40]
    for seed in range(10):
        np.testing.assert_array_equal(
            prepare_for_training(tf.constant(square), preprocessing, [0, seed]), square
        )


@pytest.mark.parametrize(
    ("box", "rows", "columns"),
    [
        ([5, 10, 20, 15], slice(10, 25), slice(5, 25)),
        ([5.4, 10.6, 2.2, 2.2], slice(10, 13), slice(5, 8)),
        ([-5, -5, 10, 10], slice(0, 5), slice(0, 5)),
        ([50, 30, 99, 99], slice(30, 40), slice(50, 60)),
        ([200, 200, 5, 5], slice(39, 40), slice(59, 60)),
    ],
)
def test_images_are_cropped_to_boxes(box, rows, columns):
    got = crop_to_box(tf.constant(PIXELS), tf.constant(box, tf.float32))
    np.testing.assert_array_equal(got, PIXELS[rows, columns])


def test_defaults_depend_on_the_data():
    in_memory = ImageList.from_labels(np.zeros([4, 48, 48, 3], np.uint8), [0, 0, 1, 1])
    assert preprocessing_for(in_memory) == Preprocessing(resize=48, crop=48, shift=4)
    assert preprocessing_for(ImageList.from_labels(["a.png", "b.png"], [0, 1])) == Preprocessing(256, 224, 0)


def test_images_in_memory_must_be_square():
    with pytest.raises(ValueError, match=r"`images` must be square .* got 48 x 50"):
        preprocessing_for(ImageList.from_labels(np.zeros([2, 48, 50, 3], np.uint8), [0, 1]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"resize": 10, "crop": 11}, "`crop` must be <= `resize` = 10, got 11"),
        ({"crop": 0}, "`crop` must be >= 1 pixel, got 0"),
        ({"resize": -1}, "`resize` must be >= 0 pixels, got -1"),
        (
            {"resize": 40, "crop": 32, "shift": 40},
            "`shift` must be less than .* 40 pixels, got 40",
        ),
        ({"shift": -1}, "`shift` must be >= 0 pixels, got -1"),
        ({"augmentation": "mixup"}, "`augmentation` must be one of crop, random_resized_crop, got 'mixup'"),
        ({"augmentation": "random_resized_crop", "shift": 4}, "`shift` must be 0 with `augmentation` random"),
        ({"color_jitter": 1.5}, r"`color_jitter` must be in \[0, 1\], got 1.5"),
        ({"aspect": "keep"}, "`aspect` must be one of stretch, crop, pad, got 'keep'"),
        ({"resize": 0, "crop": 8, "aspect": "pad"}, "`resize` must be >= 1 pixel with `aspect` pad, got 0"),
        ({"erasing": -0.5}, r"`erasing` must be in \[0, 1\], got -0.5"),
    ],
)
def test_sizes_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Preprocessing(**arguments)
