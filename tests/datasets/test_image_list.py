import dataclasses
import subprocess
import sys
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profs_tf.datasets.image_list import ImageList

PIXELS = np.arange(5 * 2 * 3 * 3, dtype=np.uint8).reshape(5, 2, 3, 3)


def files(count):
    return [f"{i}.jpg" for i in range(count)]


@pytest.mark.parametrize(
    ("labels", "class_names", "indices"),
    [
        ([7, -3, 7, 2**40, 0], ("-3", "0", "7", str(2**40)), [2, 0, 2, 3, 1]),
        ([2**70, 1, 1, -(2**70), 1], (str(-(2**70)), "1", str(2**70)), [2, 1, 1, 0, 1]),
        (["b", "a", "é", "B", "a"], ("B", "a", "b", "é"), [2, 1, 3, 0, 1]),
        (np.array([10, 9, 10, 9, 9], np.uint64), ("9", "10"), [1, 0, 1, 0, 0]),
        (np.array(["x", "y", "x", "y", "x"]), ("x", "y"), [0, 1, 0, 1, 0]),
        ([np.int32(3), 4, np.int64(3), 4, 4], ("3", "4"), [0, 1, 0, 1, 1]),
    ],
)
def test_labels_of_any_form_become_dense_indices_in_sorted_order(labels, class_names, indices):
    images = ImageList.from_labels(PIXELS, labels, "toy")
    assert images.class_names == class_names
    assert images.labels.dtype == np.int64
    assert images.labels.tolist() == indices
    assert images.name == "toy"


@settings(max_examples=50)
@given(st.lists(st.integers() | st.integers(-3, 3), min_size=1, max_size=30), st.randoms())
def test_from_labels_keeps_each_image_with_its_label_whatever_the_order(labels, random):
    images = ImageList.from_labels(files(len(labels)), labels)
    assert [int(images.class_names[index]) for index in images.labels] == labels
    order = list(range(len(labels)))
    random.shuffle(order)
    shuffled = ImageList.from_labels([f"{i}.jpg" for i in order], [labels[i] for i in order])
    assert dict(zip(shuffled.images, shuffled.labels)) == dict(zip(images.images, images.labels))
    assert shuffled.class_names == images.class_names


def test_counts():
    images = ImageList.from_labels(PIXELS, [5, 5, 9, 5, 9])
    assert (images.num_images, len(images), images.num_classes) == (5, 5, 2)
    assert images.class_sizes.tolist() == [3, 2]
    assert images.is_in_memory
    assert not ImageList.from_labels(files(1), [0]).is_in_memory


def test_take_keeps_classes_images_and_boxes_together():
    boxes = np.arange(20, dtype=float).reshape(5, 4) + 1
    images = ImageList.from_labels(PIXELS, [0, 1, 2, 1, 0], boxes=boxes)
    taken = images.take([3, 0])
    np.testing.assert_array_equal(taken.images, PIXELS[[3, 0]])
    np.testing.assert_array_equal(taken.boxes, boxes[[3, 0]].astype(np.float32))
    assert taken.labels.tolist() == [1, 0]
    assert taken.class_names == ("0", "1", "2")
    assert taken.class_sizes.tolist() == [1, 1, 0]
    masked = ImageList.from_labels(files(3), ["a", "b", "a"]).take([False, True, True])
    assert masked.images == ("1.jpg", "2.jpg")


def test_subset_of_classes_renumbers_them_in_the_given_order():
    images = ImageList.from_labels(files(6), ["a", "b", "c", "b", "a", "c"], "toy")
    part = images.subset_of_classes([2, 0], "part")
    assert part.images == ("0.jpg", "2.jpg", "4.jpg", "5.jpg")
    assert part.class_names == ("c", "a")
    assert part.labels.tolist() == [1, 0, 1, 0]
    assert part.name == "part"
    assert images.subset_of_classes([True, False, True]).class_names == ("a", "c")


@settings(max_examples=50)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.data())
def test_subset_of_classes_is_a_filter(labels, data):
    images = ImageList.from_labels(files(len(labels)), labels)
    chosen = data.draw(st.lists(st.sampled_from(range(images.num_classes)), min_size=1, unique=True))
    part = images.subset_of_classes(chosen)
    expected = defaultdict(list)
    for path, label in zip(images.images, labels):
        if str(label) in {images.class_names[index] for index in chosen}:
            expected[str(label)].append(path)
    found = defaultdict(list)
    for path, label in zip(part.images, part.labels):
        found[part.class_names[label]].append(path)
    assert found == expected


def test_it_is_immutable_and_pixels_are_not_copied():
    images = ImageList.from_labels(PIXELS, [0, 0, 1, 1, 1], boxes=np.ones((5, 4)))
    assert np.shares_memory(images.images, PIXELS)
    for array in (images.images, images.labels, images.boxes):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        images.name = "other"
    PIXELS[0, 0, 0, 0] = PIXELS[0, 0, 0, 0]  # the caller's own array stays writeable


def test_repr_is_short():
    images = ImageList.from_labels(np.zeros((1000, 4, 6, 3), np.uint8), np.arange(1000), "toy")
    assert repr(images) == "ImageList('toy': 1000 images of 1000 classes, 6x4 in memory)"
    assert (
        repr(ImageList.from_labels(files(2), [1, 2])) == "ImageList('images': 2 images of 2 classes, files)"
    )


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ImageList(PIXELS.astype(float), [0] * 5, ["a"]), "uint8 array of shape .* got float64"),
        (lambda: ImageList(PIXELS[..., :1], [0] * 5, ["a"]), r"got uint8 \[5, 2, 3, 1\]"),
        (lambda: ImageList(PIXELS[0], [0] * 2, ["a"]), r"got uint8 \[2, 3, 3\]"),
        (lambda: ImageList(PIXELS[:0], [], ["a"]), r"without an empty axis, got uint8 \[0, 2, 3, 3\]"),
        (lambda: ImageList("picture.jpg", [0], ["a"]), "got the single path 'picture.jpg'"),
        (lambda: ImageList(["a.jpg", 3], [0, 0], ["a"]), "got the item 3"),
        (lambda: ImageList(["a.jpg", ""], [0, 0], ["a"]), "got the item ''"),
        (lambda: ImageList([], [], ["a"]), "at least one image"),
        (lambda: ImageList(["\udcff.jpg"], [0], ["a"]), "UTF-8, got .* Rename"),
        (lambda: ImageList(files(2), [0], ["a"]), r"one label for each of the 2 images, got shape \[1\]"),
        (lambda: ImageList(files(2), [[1, 0], [0, 1]], ["a", "b"]), r"got shape \[2, 2\]"),
        (lambda: ImageList(files(2), [0.0, 1.0], ["a", "b"]), "integers, got float64. Use .*from_labels"),
        (lambda: ImageList(files(2), [0, 2], ["a", "b"]), "0..1, got values from 0 to 2. Use .*from_labels"),
        (lambda: ImageList(files(2), [-1, 0], ["a", "b"]), "got values from -1 to 0"),
        (lambda: ImageList(files(1), [0], []), "at least one name"),
        (lambda: ImageList(files(1), [0], "a"), "sequence of strings"),
        (lambda: ImageList(files(1), [0], [3]), r"sequence of strings, got \[3\]"),
        (lambda: ImageList(files(2), [0, 1], ["a", "a"]), r"distinct, got more than once: \['a'\]"),
        (lambda: ImageList(files(1), [0], ["a"], name=""), "`name` must be a non-empty string"),
        (lambda: ImageList(files(1), [0], ["a"], boxes=[[1, 2, 3]]), r"shape \[1, 4\], got \[1, 3\]"),
        (lambda: ImageList(files(1), [0], ["a"], boxes=[[0, 0, 0, 5]]), "above 0, got .* in row 0"),
        (lambda: ImageList(files(1), [0], ["a"], boxes=[[0, np.nan, 1, 5]]), "must be finite"),
        (lambda: ImageList.from_labels(files(2), [1, "a"]), "all integers or all strings, .* got int, str"),
        (lambda: ImageList.from_labels(files(2), [1.0, 2.0]), "got float"),
        (lambda: ImageList.from_labels(files(2), np.eye(2, dtype=int)), "no one-hot rows"),
        (
            lambda: ImageList.from_labels(files(2), "ab"),
            "sequence of integers or strings, got 'ab'",
        ),
        (lambda: ImageList.from_labels(files(2), [b"a", b"b"]), "got bytes"),
        (lambda: ImageList.from_labels(files(2), [0, 1]).take([]), "non-empty"),
        (lambda: ImageList.from_labels(files(2), [0, 1]).take([2]), r"in 0..1, got values from 2 to 2"),
        (lambda: ImageList.from_labels(files(2), [0, 1]).take([-1]), "got values from -1"),
        (lambda: ImageList.from_labels(files(2), [0, 1]).take([0.5]), "integers or a boolean mask"),
        (lambda: ImageList.from_labels(files(2), [0, 1]).take([True]), "must have 2 entries"),
        (lambda: ImageList.from_labels(files(2), [0, 1]).subset_of_classes([1, 1]), "must be distinct"),
        (lambda: ImageList(files(1), [0], ["a", "b"]).subset_of_classes([1]), "a class that has images"),
    ],
)
def test_invalid_fields_are_refused_with_rule_and_value(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_needs_no_tensorflow():
    code = (
        "import sys; import profs_tf.datasets; from profs_tf.datasets.image_list import ImageList; "
        "sys.exit('tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=120, check=False).returncode == 0


def test_queries_stay_with_their_images_and_the_others_are_candidates():
    images = ImageList(["a", "b", "c", "d"], [0, 1, 0, 1], ["x", "y"], is_query=[True, False, False, False])
    assert (images.num_candidates, images.take([0, 1, 2]).num_candidates) == (3, 2)
    assert images.take([2, 0]).is_query.tolist() == [False, True]
    assert images.subset_of_classes([0]).is_query.tolist() == [True, False]
    assert ImageList(["a", "b"], [0, 0], ["x"]).num_candidates == 1
    for wrong in ([True] * 4, [False] * 4, [True, False], [1, 0, 0, 0]):
        with pytest.raises(ValueError, match="`is_query` must be 4 booleans, true for some images and"):
            dataclasses.replace(images, is_query=wrong)
