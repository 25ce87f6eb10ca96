import numpy as np
import pytest

from profs_tf.datasets import hold_out_classes, split_by_class
from profs_tf.datasets.image_list import ImageList


def images(num_classes):
    labels = [f"c{i}" for i in range(num_classes)] * 2
    return ImageList.from_labels([f"{i}.jpg" for i in range(len(labels))], labels, "toy")


@pytest.mark.parametrize(
    ("num_classes", "fraction", "num_train"),
    [(4, 0.5, 2), (5, 0.5, 2), (2, 0.99, 1), (3, 0.01, 1), (9, 1 / 3, 3), (8, np.float32(0.25), 2)],
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
        ([], "both sides, got 0 of 4"),
        (["c0", "c1", "c2", "c3"], "both sides, got 4 of 4"),
        ("no/such/file", "a file of them, got no/such/file"),
    ],
)
def test_what_splits_nothing_is_refused(train_classes, message):
    with pytest.raises(ValueError, match=message):
        split_by_class(images(4), train_classes)


def test_a_single_class_cannot_be_split():
    with pytest.raises(ValueError, match="at least 2 classes to split, got 1"):
        split_by_class(images(1))


@pytest.mark.parametrize(
    ("num_classes", "fraction", "num_held_out"), [(10, 0.2, 2), (5, 0.5, 2), (2, 0.99, 1), (3, 0.01, 1)]
)
def test_held_out_classes_are_the_others(num_classes, fraction, num_held_out):
    whole = images(num_classes)
    train, validation = hold_out_classes(whole, fraction)
    assert validation.num_classes == num_held_out
    assert sorted(train.class_names + validation.class_names) == sorted(whole.class_names)
    assert list(validation.class_names) == sorted(validation.class_names, key=whole.class_names.index)
    assert sorted(train.images + validation.images) == sorted(whole.images)
    assert all(size == 2 for size in validation.class_sizes)


def test_held_out_classes_are_drawn_from_everywhere_and_are_always_the_same():
    whole = images(50)
    chosen = [hold_out_classes(whole, 0.2)[1].class_names for _ in range(2)]
    assert chosen[0] == chosen[1]
    places = [whole.class_names.index(name) for name in chosen[0]]
    # The frozen stream of NumPy's Mersenne Twister: other classes would make other figures of published runs.
    assert places == sorted(np.random.RandomState(0).permutation(50)[40:].tolist())
    assert places[0] < 15
    assert places[-1] > 35


def test_parts_are_named_after_the_data_set():
    train, _ = split_by_class(images(6))
    assert [part.name for part in hold_out_classes(train, 0.5)] == ["toy train", "toy validation"]


def test_what_holds_out_nothing_is_refused():
    for fraction in (0.0, 1.0, float("nan")):
        with pytest.raises(ValueError, match="`validation_classes` must be between 0 and 1, got"):
            hold_out_classes(images(4), fraction)
    with pytest.raises(ValueError, match="needs at least 2 classes to split, got 1"):
        hold_out_classes(images(1), 0.5)
