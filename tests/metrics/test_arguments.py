import numpy as np
import pytest

from profs_tf.metrics.arguments import check_embeddings, check_ks, check_labels, class_numbers


def test_embeddings_are_not_copied_unless_converted():
    for dtype in (np.float16, np.float32, np.float64):
        embeddings = np.ones((3, 2), dtype)
        assert check_embeddings(embeddings) is embeddings
    assert check_embeddings(np.ones((3, 2), np.longdouble)).dtype == np.float64


def test_the_first_value_that_is_not_finite_is_named_across_blocks(monkeypatch):
    monkeypatch.setattr("profs_tf.metrics.arguments._CHECK_ELEMENTS", 4)
    embeddings = np.ones((9, 2))
    embeddings[[5, 8], 1] = np.nan, np.inf
    with pytest.raises(ValueError, match="`gallery` must be finite, got 2 of 9 .* the first at index 5"):
        check_embeddings(embeddings, "gallery")


def test_classes_are_numbered_alike_in_both_sets():
    first, second = class_numbers(check_labels(["b", "a"], 2), check_labels(["c", "b", b"b"], 3))
    assert first.tolist() == [1, 0]
    assert second.tolist() == [2, 1, 1]
    alone, again = class_numbers(np.array([9, -3, 9]))
    assert alone is again
    assert alone.tolist() == [1, 0, 1]


def test_ks_become_integers():
    assert check_ks(np.array([1, 3]), 3) == (1, 3)
    assert check_ks(2, 3) == (2,)
    assert all(type(k) is int for k in check_ks(np.array([1, 3]), 3))
