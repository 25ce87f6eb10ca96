import numpy as np
import pytest

from profs_tf.datasets import hold_out_classes, shared_classes, split_by_class
from profs_tf.datasets.image_list import ImageList


def images(num_classes):
    labels = [f"c{i}" for i in range(num_classes)] * 2
    return ImageList.from_labels([f"{i}.jpg" for i in range(len(labels))], labels, "toy")


@pytest.mark.parametrize(
    ("num_classes", "fraction", "num_train"),
    [(4, 0.5, 2), (5, 0.5, 2), (100, 0.98, 98), (9, 1 / 3, 3), (8, np.float32(0.25), 2)],
)
def test_a_fraction_takes_the_first_classes(num_classes, fraction, num_train):
    whole = images(num_classes)
    train, test = split_by_class(whole, fraction)
    assert train.class_names == whole.class_names[:num_train]
    assert test.class_names == whole.class_names[num_train:]
    assert train.class_sizes.tolist() == [2] * num_train
    assert sorted(train.images + test.images) == sorted(whole.images)
    assert (train.name, test.name) == ("toy train", "toy test")


def test_names_and_a_file_of_names_choose_the_same(tmp_path):
    chosen = tmp_path / "train.txt"
    chosen.write_text("c3\r\n\nc0\n", "utf-8-sig")
    for train_classes in (["c3", "c0"], ("c0", "c3"), chosen, str(chosen)):
        train, test = split_by_class(images(4), train_classes)
        assert train.class_names == ("c0", "c3")
        assert test.class_names == ("c1", "c2")


@pytest.mark.parametrize(
    ("train_classes", "message"),
    [
        (0, "between 0 and 1, got 0"),
        (1.0, "between 0 and 1, got 1.0"),
        (float("nan"), "between 0 and 1, got nan"),
        (["c0", "bird"], r"got the unknown 'bird'. Its classes: 'c0', 'c1', 'c2', 'c3'"),
        (0.49, "at least 2 training and 2 test classes, got 1 and 3"),
        (0.99, "at least 2 training and 2 test classes, got 3 and 1"),
        ([], "at least 2 training and 2 test classes, got 0 and 4"),
        (["c0"], "at least 2 training and 2 test classes, got 1 and 3"),
        (["c0", "c1", "c2", "c3"], "at least 2 training and 2 test classes, got 4 and 0"),
        ("no/such/file", "a file of them, got no/such/file"),
    ],
)
def test_unusable_training_classes_are_refused(train_classes, message):
    with pytest.raises(ValueError, match=message):
        split_by_class(images(4), train_classes)


@pytest.mark.parametrize("num_classes", [1, 2, 3])
def test_fewer_than_four_classes_cannot_be_split(num_classes):
    for split, argument in ((split_by_class, "train_classes"), (hold_out_classes, "validation_classes")):
        with pytest.raises(
            ValueError, match=f"`{argument}` needs at least 4 classes to split, got {num_classes} in"
        ):
            split(images(num_classes), 0.5)


@pytest.mark.parametrize(
    ("num_classes", "fraction", "num_held_out"), [(10, 0.2, 2), (5, 0.5, 2), (4, 0.5, 2), (100, 0.98, 98)]
)
def test_held_out_classes_are_the_others(num_classes, fraction, num_held_out):
    whole = images(num_classes)
    train, validation = hold_out_classes(whole, fraction)
    assert validation.num_classes == num_held_out
    assert sorted(train.class_names + validation.class_names) == sorted(whole.class_names)
    assert list(validation.class_names) == sorted(validation.class_names, key=whole.class_names.index)
    assert sorted(train.images + validation.images) == sorted(whole.images)
    assert all(size == 2 for size in validation.class_sizes)


def test_held_out_classes_are_a_fixed_random_draw():
    whole = images(50)
    chosen = [hold_out_classes(whole, 0.2)[1].class_names for _ in range(2)]
    assert chosen[0] == chosen[1]
    positions = [whole.class_names.index(name) for name in chosen[0]]
    # Another draw would invalidate the published validation scores.
    assert positions == sorted(np.random.RandomState(0).permutation(50)[40:].tolist())
    assert positions[0] < 15
    assert positions[-1] > 35


def test_parts_are_named_after_the_data_set():
    train, _ = split_by_class(images(8))
    assert [part.name for part in hold_out_classes(train, 0.5)] == ["toy train", "toy validation"]


def test_unusable_validation_classes_are_refused():
    for fraction in (0.0, 1.0, float("nan")):
        with pytest.raises(ValueError, match="`validation_classes` must be between 0 and 1, got"):
            hold_out_classes(images(4), fraction)
    for fraction, counts in ((0.2, "4 and 1"), (0.9, "1 and 4")):
        with pytest.raises(ValueError, match=f"at least 2 training and 2 validation classes, got {counts}"):
            hold_out_classes(images(5), fraction)


def test_shared_classes_are_those_with_images_in_both_splits():
    whole = images(5)
    train = whole.subset_of_classes([3, 1, 0])
    test = whole.subset_of_classes([1, 2, 3, 4])
    assert shared_classes(train, test) == ("c1", "c3")
    assert shared_classes(*split_by_class(whole)) == ()
    # `take` keeps the names of classes that it leaves without an image.
    assert shared_classes(train, test.take(test.labels != 2)) == ("c1",)
    assert shared_classes(train.take(train.labels == 2), test) == ()


def test_a_file_of_classes_that_is_no_text_is_named(tmp_path):
    (tmp_path / "names.txt").write_bytes("caf\xe9".encode("latin-1"))
    with pytest.raises(ValueError, match=r"`train_classes` must be a UTF-8 .*names\.txt: 'utf-8' codec"):
        split_by_class(images(4), tmp_path / "names.txt")
