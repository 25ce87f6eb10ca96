import numpy as np
import pytest

from profs_tf.shards.dtypes import (
    measure_loss,
    num_clipped,
    sample_of_classes,
    scale_of,
    to_float,
    to_stored,
)

RANDOM = np.random.default_rng(0)
EMBEDDINGS = RANDOM.normal(size=[40, 6]).astype(np.float32)


def test_int8_differs_by_half_a_step_at_most_and_clips_beyond_the_sample():
    scale = scale_of(EMBEDDINGS)
    codes = to_stored(EMBEDDINGS, "int8", scale)
    assert codes.dtype == np.int8
    assert np.abs(codes).max() == 127
    assert np.abs(to_float(codes, scale) - EMBEDDINGS).max() <= scale * 0.5001
    assert num_clipped(EMBEDDINGS, "int8", scale) == 0
    assert to_stored(np.float32([[-9, 9]]), "int8", scale).tolist() == [[-127, 127]]
    assert num_clipped(np.float32([[-9, 9]]), "int8", scale) == 2
    assert scale_of(np.zeros([2, 3], np.float32)) == 1.0


def test_float16_rounds_and_refuses_what_it_cannot_hold():
    stored = to_stored(EMBEDDINGS, "float16", None)
    assert stored.dtype == np.float16
    np.testing.assert_allclose(to_float(stored, None), EMBEDDINGS, rtol=1e-3)
    with pytest.raises(ValueError, match=r"got float16 for 70000\. Pass `dtype=float32`"):
        to_stored(np.float32([[7e4]]), "float16", None)


def test_the_sample_has_whole_classes():
    classes = [*"aaabbbbbbccd", ""]
    chosen = sample_of_classes(classes, 6)
    picked = {name for name, is_chosen in zip(classes, chosen) if is_chosen}
    assert 2 <= chosen.sum() <= 6
    assert "" not in picked
    assert all(chosen[at] == (name in picked) for at, name in enumerate(classes))
    assert sample_of_classes(classes, 100).tolist() == [True] * 12 + [False]
    for none in (None, ["a", "a"], ["a", "b"]):
        assert sample_of_classes(none, 100) is None


def test_the_loss_is_that_of_the_stored_values():
    labels = ["a", "a", "b", "b"]
    embeddings = np.float32([[0.0], [0.2], [1.0], [1.1]])
    assert measure_loss(embeddings, labels, "int8", 0.01)["recall@1"] == {"float32": 1.0, "int8": 1.0}
    # Codes 0, 0, 1, 1 tell the classes apart, codes 0, 0, 0, 0 do not: negatives win ties.
    assert measure_loss(embeddings, labels, "int8", 10.0)["recall@1"] == {"float32": 1.0, "int8": 0.0}
    assert measure_loss(embeddings, list("abcd"), "int8", 1.0) is None
