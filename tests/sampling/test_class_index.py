import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profs_tf.sampling.class_index import ClassTable


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=30))
def test_equals_a_dictionary_of_lists(labels):
    table = ClassTable(labels)
    assert table.num_images == len(labels)
    assert table.class_labels.tolist() == sorted(set(labels))
    for index, label in enumerate(table.class_labels):
        images = [i for i, other in enumerate(labels) if other == label]
        assert np.split(table.images_by_class, table.starts[1:])[index].tolist() == images
        assert table.sizes[index] == len(images)
        assert table.position_in_class[images].tolist() == list(range(len(images)))
        assert (table.class_of_image[images] == index).all()


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["ä", "b", "ä", "b"], object),
        np.array(["ä".encode(), b"b"] * 2, object),
        np.array(["ä".encode(), b"b"] * 2),
    ],
)
def test_strings_of_any_dtype_are_the_same_classes(labels):
    table = ClassTable(labels)
    assert table.class_labels.tolist() == ["b", "ä"]
    assert table.class_of_image.tolist() == [1, 0, 1, 0]


def test_integers_as_objects_keep_their_value():
    assert ClassTable(np.array([2**40, -1] * 2, object)).class_labels.tolist() == [-1, 2**40]


@pytest.mark.parametrize("missing", [None, float("nan"), 1, True])
def test_a_missing_label_is_no_class(missing):
    with pytest.raises(ValueError, match="`labels` must be integers or strings, got dtype object"):
        ClassTable(np.array(["a", "a", missing, "b"], object))
