import itertools
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageOps

from profs_tf.datasets.folder import list_folder
from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.pipeline import evaluation_pipeline, train_pipeline
from profs_tf.inputs.preprocessing import Preprocessing, prepare_for_training
from profs_tf.sampling.batch_sampler import BatchSampler

PIXELS = np.random.default_rng(0).integers(0, 256, (24, 12, 12, 3), np.uint8)
LABELS = np.repeat(np.arange(6), 4)
PLAIN = Preprocessing(resize=12, crop=12, mirror=False)


def take(dataset, count):
    return list(itertools.islice(dataset.as_numpy_iterator(), count))


def in_memory():
    return ImageList.from_labels(PIXELS, LABELS)


def test_batches_are_the_samplers():
    sampler = BatchSampler(LABELS, 6, 2, seed=5)
    for step, (images, labels, is_representative) in enumerate(
        take(train_pipeline(in_memory(), sampler, PLAIN), 40)
    ):
        batch = sampler.batch(step)
        np.testing.assert_array_equal(images, PIXELS[batch.indices])
        np.testing.assert_array_equal(labels, batch.labels)
        np.testing.assert_array_equal(is_representative, batch.is_representative)


def test_representatives_stay_for_a_projection_and_change_at_its_end():
    sampler = BatchSampler(LABELS, 6, 2, seed=5)
    assert sampler.steps_per_projection == 12
    seen = {}
    for step, (images, labels, is_representative) in enumerate(
        take(train_pipeline(in_memory(), sampler, PLAIN, prefetch=8), 60)
    ):
        for image, label in zip(images[is_representative == 1], labels[is_representative == 1]):
            seen.setdefault((step // 12, label), set()).add(image.tobytes())
    assert all(len(pictures) == 1 for pictures in seen.values())
    changes = [seen[k, c] != seen[k + 1, c] for k, c in seen if (k + 1, c) in seen]
    assert np.mean(changes) > 0.4  # of four images one is drawn again with probability 1/4


def test_augmentation_depends_on_step_and_position_only():
    sampler = BatchSampler(LABELS, 6, 2, seed=5)
    shifted = Preprocessing(resize=12, crop=12, shift=3)
    whole = take(train_pipeline(in_memory(), sampler, shifted), 20)
    sampler.first_step = 13
    late = take(train_pipeline(in_memory(), sampler, shifted), 7)
    for before, after in zip(whole[13:], late):
        np.testing.assert_array_equal(before[0], after[0])
    assert any((a[0][0] != b[0][0]).any() for a, b in zip(whole[:5], whole[1:6]))


def test_representatives_may_keep_their_augmentation_for_a_projection():
    """Replayed: of a representative it is drawn from -1 - k and the class, of other images as always."""
    sampler = BatchSampler(LABELS, 6, 2, seed=5, steps_per_projection=4)
    shifted = Preprocessing(resize=12, crop=12, shift=3)
    fixed = take(train_pipeline(in_memory(), sampler, shifted, fix_representative_augmentation=True), 12)
    free = take(train_pipeline(in_memory(), sampler, shifted), 12)
    fold_in, seen = tf.random.experimental.stateless_fold_in, {}
    for step, ((images, labels, _), (others, _, _)) in enumerate(zip(fixed, free)):
        np.testing.assert_array_equal(images[3:], others[3:])
        for position, label in enumerate(labels[:3]):
            seed = fold_in(tf.constant([5, 0x5EED], tf.int32), tf.constant(-1 - step // 4, tf.int64))
            seed = fold_in(seed, tf.constant(label, tf.int64))
            pixels = tf.constant(PIXELS[sampler.batch(step).indices[position]])
            np.testing.assert_array_equal(images[position], prepare_for_training(pixels, shifted, seed))
            seen.setdefault((step // 4, label), set()).add(images[position].tobytes())
    assert all(len(pictures) == 1 for pictures in seen.values())
    assert len(set.union(*seen.values())) == len(seen)
    sampler.first_step = 7
    late = take(train_pipeline(in_memory(), sampler, shifted, fix_representative_augmentation=True), 1)
    np.testing.assert_array_equal(late[0][0], fixed[7][0])
    # Batches that do not share representatives stay as they are.
    ordinary = BatchSampler(LABELS, 6, 2, seed=5, steps_per_projection=4, representative_reuse=False)
    without, with_option = (
        train_pipeline(in_memory(), ordinary, shifted, fix_representative_augmentation=option)
        for option in (False, True)
    )
    np.testing.assert_array_equal(take(without, 2)[1][0], take(with_option, 2)[1][0])


def test_each_image_of_a_batch_has_its_own_crop():
    same = ImageList.from_labels(np.repeat(PIXELS[:1], 24, axis=0), LABELS)
    images = take(train_pipeline(same, BatchSampler(LABELS, 12), Preprocessing(12, 12, 3)), 1)[0][0]
    assert len({image.tobytes() for image in images}) > 8


def test_seeds_differ_in_augmentation():
    shifted = Preprocessing(resize=12, crop=12, shift=3)
    by_seed = {}
    for seed in (1, 1 + 2**31):
        sampler = BatchSampler(np.zeros(1, int), 2, 2, seed=seed)
        one = ImageList.from_labels(PIXELS[:1], [0])
        by_seed[seed] = np.stack([batch[0] for batch in take(train_pipeline(one, sampler, shifted), 8)])
    first, second = by_seed.values()
    assert (first != second).any()


def test_files_are_read_by_path(tmp_path):
    paths = []
    for number, picture in enumerate(PIXELS):
        paths.append(str(tmp_path / f"bild ü {number}.PNG"))
        Image.fromarray(picture).save(paths[-1], "PNG")
    files = ImageList.from_labels(paths, LABELS)
    sampler = BatchSampler(LABELS, 6, 2)
    for a, b in zip(
        take(train_pipeline(files, sampler, PLAIN), 3), take(train_pipeline(in_memory(), sampler, PLAIN), 3)
    ):
        np.testing.assert_array_equal(a[0], b[0])
    np.testing.assert_array_equal(np.concatenate(take(evaluation_pipeline(files, PLAIN, 7), 4)), PIXELS)


def test_evaluation_keeps_the_order_and_the_last_short_batch():
    batches = take(evaluation_pipeline(in_memory(), PLAIN, 7), 9)
    assert [len(batch) for batch in batches] == [7, 7, 7, 3]
    np.testing.assert_array_equal(np.concatenate(batches), PIXELS)


def test_the_augmentation_is_that_of_prepare_for_training():
    sampler = BatchSampler(LABELS, 6, 2, seed=5)
    shifted = Preprocessing(resize=12, crop=12, shift=3)
    image = take(train_pipeline(in_memory(), sampler, shifted), 3)[2][0][4]
    run_seed = tf.constant([5, 0x5EED], tf.int32)
    fold_in = tf.random.experimental.stateless_fold_in
    seed = fold_in(fold_in(run_seed, tf.constant(2, tf.int64)), tf.constant(4, tf.int64))
    np.testing.assert_array_equal(
        image, prepare_for_training(tf.constant(PIXELS[sampler.batch(2).indices[4]]), shifted, seed)
    )


def test_the_pipeline_is_infinite_for_keras():
    dataset = train_pipeline(in_memory(), BatchSampler(LABELS, 6))
    assert dataset.cardinality() == tf.data.INFINITE_CARDINALITY
    assert dataset.element_spec[0] == tf.TensorSpec([6, 12, 12, 3], tf.uint8)


def test_a_sampler_of_other_images_is_refused():
    with pytest.raises(ValueError, match="knows 23 images, the list has 24"):
        train_pipeline(in_memory(), BatchSampler(LABELS[:23], 6))


def triangle_weights(old, new):
    """The antialiased linear filter as a matrix [new, old]: each output averages what its triangle covers."""
    scale = old / new
    radius = max(scale, 1.0)
    centers = (np.arange(new) + 0.5) * scale - 0.5
    weights = np.maximum(0.0, 1.0 - np.abs(np.arange(old) - centers[:, None]) / radius)
    return weights / weights.sum(axis=1, keepdims=True)


def prepared_without_tensorflow(path, box, preprocessing, seed, step, position):
    """The whole preprocessing of one image by Pillow and NumPy; only the random numbers are TensorFlow's."""
    with Image.open(path) as file:
        picture = np.asarray(ImageOps.exif_transpose(file).convert("RGB")).astype(np.float64)
    left, top, width, height = box
    picture = picture[top : top + height, left : left + width]
    side, shift, crop = preprocessing.resize, preprocessing.shift, preprocessing.crop
    rows, columns = triangle_weights(height, side), triangle_weights(width, side)
    picture = np.clip(np.rint(np.einsum("yr,rcx,zc->yzx", rows, picture, columns)), 0, 255)
    picture = np.pad(picture, [(shift, shift), (shift, shift), (0, 0)], mode="symmetric")
    image_seed = [seed, 0x5EED]
    for number in (step, position):
        image_seed = tf.random.experimental.stateless_fold_in(image_seed, tf.constant(number, tf.int64))
    crop_seed, mirror_seed = tf.random.experimental.stateless_split(image_seed, num=2)
    offsets = tf.random.stateless_uniform([3], crop_seed, maxval=2**31 - 1, dtype=tf.int32).numpy()
    y, x = offsets[:2] % (side + 2 * shift - crop + 1)
    picture = picture[y : y + crop, x : x + crop]
    mirrored = float(tf.random.stateless_uniform([], mirror_seed)) < 0.5
    return picture[:, ::-1] if mirrored else picture


def save_photographs(folder):
    """Twelve images as users have them: JPEG with and without EXIF orientation, gray, CMYK, PNG, GIF."""
    random = np.random.default_rng(1)
    paths = []
    for number in range(12):
        colors = Image.fromarray(random.integers(0, 256, (6, 8, 3), np.uint8)).resize((64, 48), Image.BICUBIC)
        kind = number % 6
        path = folder / f"{number}.{'png' if kind == 4 else 'gif' if kind == 5 else 'jpg'}"
        exif = Image.Exif()
        if kind == 1:
            exif[0x112] = 6
        mode = {2: "L", 3: "CMYK"}.get(kind, "RGB")
        options = {"exif": exif, "quality": 92} if kind < 4 else {}
        colors.convert(mode).save(path, **options)
        paths.append(str(path))
    return paths


@pytest.mark.parametrize("preprocessing", [Preprocessing(24, 17, 3), Preprocessing(50, 50, 0)])
def test_images_equal_those_prepared_without_tensorflow(preprocessing, tmp_path):
    paths = save_photographs(tmp_path)
    boxes = np.tile(np.float32([5, 7, 40, 33]), [12, 1])
    files = ImageList.from_labels(paths, np.repeat(np.arange(4), 3), boxes=boxes)
    sampler = BatchSampler(files.labels, 8, 2, seed=9)
    for step, (images, _, _) in enumerate(take(train_pipeline(files, sampler, preprocessing), 3)):
        for position, index in enumerate(sampler.batch(step).indices):
            expected = prepared_without_tensorflow(
                paths[index], (5, 7, 40, 33), preprocessing, 9, step, position
            )
            assert np.abs(images[position] - expected).max() <= 1, paths[index]


def test_the_order_in_which_files_are_listed_changes_nothing(tmp_path, monkeypatch):
    root = tmp_path / "pictures"
    for number, path in enumerate(save_photographs(tmp_path)):
        folder = root / f"class {number // 3}" / "deeper" / f"{number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.move(path, folder)

    def batches():
        files = list_folder(root)
        sampler = BatchSampler(files.labels, 8, 2, seed=1)
        return take(train_pipeline(files, sampler, Preprocessing(20, 16, 2)), 3)

    one = batches()
    listdir, walk = os.listdir, os.walk
    monkeypatch.setattr(os, "listdir", lambda path: listdir(path)[::-1])

    def reversed_walk(*arguments, **options):
        for parent, folders, names in walk(*arguments, **options):
            folders.reverse()
            yield parent, folders, names[::-1]

    monkeypatch.setattr(os, "walk", reversed_walk)
    for first, second in zip(one, batches()):
        for a, b in zip(first, second):
            np.testing.assert_array_equal(a, b)
