import numpy as np
import pytest

from profs_tf.sampling.ccp.k_center import draw_pool, greedy_k_center
from profs_tf.sampling.class_index import ClassTable
from tests.sampling.ccp.k_center_loops import k_center_of_class


def test_the_example_of_the_module():
    pool = np.array([1.0, 2.0, 6.0, 7.0]).reshape(1, 4, 1)
    assert greedy_k_center(pool, 2, np.zeros([1, 1, 1])).tolist() == [[3, 1]]


def test_agrees_with_loops_and_covers_within_twice_the_best():
    random = np.random.default_rng(0)
    # More classes than are chosen at once.
    pool, covered = random.normal(size=[300, 7, 3]), random.normal(size=[300, 2, 3])
    for centers in (None, covered):
        chosen = greedy_k_center(pool, 3, centers)
        expected = [
            k_center_of_class(points, 3, [] if centers is None else centers[number])
            for number, points in enumerate(pool)
        ]
        assert chosen.tolist() == expected
    radius = np.linalg.norm(pool[0][:, None] - pool[0][chosen[0]], axis=2).min(axis=1).max()
    subsets = [pool[0][[i, j, k]] for i in range(7) for j in range(i) for k in range(j)]
    best = min(np.linalg.norm(pool[0][:, None] - some, axis=2).min(axis=1).max() for some in subsets)
    assert radius <= 2 * best


def test_without_centers_the_first_point_is_chosen_and_none_twice():
    chosen = greedy_k_center(np.ones([2, 3, 4], np.float32), 3)
    assert chosen.tolist() == [[0, 1, 2], [0, 1, 2]]


def test_more_centers_than_points_are_refused():
    with pytest.raises(ValueError, match="`count` must be from 1 to the 3 points of the pool, got 4"):
        greedy_k_center(np.ones([2, 3, 4]), 4)


def test_a_pool_is_drawn_without_replacement_from_each_class():
    table = ClassTable(np.repeat([5, 7, 9], [2, 4, 9]))
    pool = draw_pool(table, 3, 1, 4)
    assert (table.class_of_image[pool] == np.arange(3)[:, None]).all()
    assert [len(set(row)) for row in pool.tolist()] == [2, 4, 4]
    assert sorted(pool[0].tolist()) == [0, 0, 1, 1]
    np.testing.assert_array_equal(pool, draw_pool(table, 3, 1, 4))
    assert not np.array_equal(pool, draw_pool(table, 3, 2, 4))
    assert not np.array_equal(pool, draw_pool(table, 4, 1, 4))


def test_a_class_of_fewer_images_than_prototypes_has_them_all_and_some_again():
    table = ClassTable(np.repeat([0, 1], [3, 9]))
    pool = draw_pool(table, seed=0, projection_index=0, pool_size=8)
    points = np.random.default_rng(0).normal(size=[12, 4])
    for covered in (None, np.ones([2, 5, 4])):
        chosen = np.take_along_axis(pool, greedy_k_center(points[pool], 5, covered), axis=1)
        assert sorted(set(chosen[0, :3])) == [0, 1, 2]
        assert set(chosen[0, 3:]) <= {0, 1, 2}
        assert len(set(chosen[1])) == 5
