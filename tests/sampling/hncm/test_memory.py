from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profs_tf.sampling.hncm import memory as memory_module
from profs_tf.sampling.hncm.memory import ClassMemory


def filled_memory(embeddings):
    memory = ClassMemory(*embeddings.shape)
    memory.update(np.arange(len(embeddings)), embeddings)
    return memory


@settings(max_examples=60)
@given(st.integers(1, 200), st.integers(1, 40), st.integers(1, 9), st.integers(0, 400))
def test_blocks_of_products_are_the_products(rows, depth, width, limit):
    random = np.random.default_rng(rows)
    matrix = random.integers(-9, 9, [rows, depth]).astype(np.float32)
    columns = random.integers(-9, 9, [width, depth]).astype(np.float32).T
    with (
        mock.patch.object(memory_module, "_ONE_THREAD", limit),
        mock.patch.object(memory_module, "_ONE_THREAD_VECTOR", limit),
    ):
        # Whole numbers: no rounding.
        np.testing.assert_array_equal(memory_module._products(matrix, columns), matrix @ columns)


def test_memory_keeps_the_last_seen():
    memory = ClassMemory(4, 2)
    memory.update(np.array([2, 0]), np.array([[3.0, 4.0], [1.0, 0.0]]))
    memory.update(np.array([2]), np.array([[0.0, 1.0]]))
    np.testing.assert_array_equal(memory.embeddings, [[1, 0], [0, 0], [0, 1], [0, 0]])
    np.testing.assert_array_equal(memory.seen, [True, False, True, False])
    distances = memory.relative_distances(np.array([0]))[0]
    assert distances[2] - distances[0] == pytest.approx(1.0)  # half of |(1, 0) - (0, 1)|^2 = 2
    assert np.isinf(distances[[1, 3]]).all()
    other = memory.copy()
    memory.update(np.array([0]), np.array([[9.0, 9.0]]))
    np.testing.assert_array_equal(other.embeddings[0], [1, 0])


def test_replaced_memory_equals_one_that_was_updated():
    embeddings = np.random.default_rng(0).normal(size=(200, 16)).astype(np.float32)
    replaced, updated = ClassMemory(*embeddings.shape), filled_memory(embeddings)
    replaced.replace(np.zeros_like(embeddings))
    replaced.replace(embeddings)
    seeds = np.array([3, 77, 140])
    np.testing.assert_array_equal(replaced.relative_distances(seeds), updated.relative_distances(seeds))
    np.testing.assert_array_equal(
        replaced.copy().relative_distances(seeds), updated.relative_distances(seeds)
    )
    assert replaced.seen.all()


@pytest.mark.parametrize(("num_classes", "dim"), [(100, 512), (600, 512)])
@pytest.mark.parametrize("count", [0, 1, 13])
def test_scans_in_parts_and_at_once_are_the_same_distances(num_classes, dim, count):
    embeddings = np.random.default_rng(0).normal(size=(num_classes, dim)).astype(np.float32)
    seeds = np.random.default_rng(1).permutation(num_classes)[:count]
    found = filled_memory(embeddings).relative_distances(seeds)
    wide = embeddings.astype(np.float64)
    expected = 0.5 * np.sum(wide**2, axis=1) - wide[seeds] @ wide.T
    assert found.shape == (count, num_classes)
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_updating_leaves_the_array_of_replace_alone():
    handed_over = np.ones([3, 2], np.float32)
    handed_over.flags.writeable = False
    memory = ClassMemory(3, 2)
    memory.replace(handed_over)
    memory.update(np.array([1]), np.array([[5.0, 6.0]]))
    np.testing.assert_array_equal(memory.embeddings, [[1, 1], [5, 6], [1, 1]])
    np.testing.assert_array_equal(handed_over, np.ones([3, 2]))
    assert memory.relative_distances(np.array([0]))[0, 1] == (25 + 36) / 2 - 11


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_embedding_that_is_not_finite_is_refused_and_changes_nothing(value):
    memory = filled_memory(np.ones([4, 2], np.float32))
    message = (
        "`embeddings` must be finite, got NaN or infinite values for 1 of 2 classes, the first is class 3"
    )
    with pytest.raises(ValueError, match=message):
        memory.update(np.array([1, 3]), np.array([[2.0, 2.0], [0.0, value]]))
    np.testing.assert_array_equal(memory.embeddings, np.ones([4, 2]))
    # Prototypes are checked when they are read.
    memory.replace(np.array([[1.0, 1.0], [1.0, value]], np.float32))
    for read in (lambda: memory.embeddings, lambda: memory.relative_distances(np.array([0]))):
        with pytest.raises(
            ValueError, match=r"for 1 of 2 classes, the first is class 1\. Lower the learning rate"
        ):
            read()
