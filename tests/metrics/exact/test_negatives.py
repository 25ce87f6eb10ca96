import numpy as np
import pytest

from profs_tf.metrics.exact.embeddings import EmbeddingSet, fit_centering, mirrored
from profs_tf.metrics.exact.negatives import NegativeCounter
from profs_tf.metrics.exact.positives import all_positives, count_positives

SIZE = 90


def make_set(spread):
    random = np.random.default_rng(0)
    embeddings = 3 + spread * random.integers(-4, 5, (SIZE, 3))
    return EmbeddingSet(embeddings, random.integers(9, size=SIZE), fit_centering("euclidean", embeddings))


# With little spread, all scores are within the error bound, and float64 decides.
@pytest.mark.parametrize("spread", [1.0, 1e-7])
@pytest.mark.parametrize("tile", [13, 40, SIZE])
def test_counts_and_ranks_are_those_of_all_pairs(spread, tile):
    images, every = make_set(spread), slice(0, SIZE)
    num_positives = count_positives(images, images, True)
    thresholds = all_positives(images, images, True, every)
    counter = NegativeCounter(images, images, thresholds, num_positives)
    blocks = [slice(start, min(start + tile, SIZE)) for start in range(0, SIZE, tile)]
    for rows in blocks:
        for columns in blocks:
            scores = images.float32_block(rows) @ mirrored(images.float32_block(columns)).T
            counter.add(rows, counter.count(scores, rows, columns))
    query, ranks = counter.ranks()
    rows = images.rows(every)
    distances_sq = ((rows[:, None] - rows) ** 2).sum(axis=-1)
    for q in range(SIZE):
        negatives = np.sort(distances_sq[q, images.classes != images.classes[q]])
        scores = thresholds.scores[thresholds.starts[q] : thresholds.starts[q + 1]]
        expected = 1 + np.arange(len(scores)) + np.searchsorted(negatives, -2 * scores + 1e-11, "right")
        found = ranks[query == q]
        exact = (expected <= num_positives[q]) | (np.arange(len(scores)) == 0)
        np.testing.assert_array_equal(found[exact], expected[exact])
        assert (found[~exact] > num_positives[q]).all()


def test_tiles_within_a_class_need_no_products():
    images = make_set(1.0)
    thresholds = all_positives(images, images, True, slice(0, SIZE))
    counter = NegativeCounter(images, images, thresholds, count_positives(images, images, True))
    begin, end = (int(edge[0]) for edge in images.class_range(np.array([4])))
    inside = slice(begin, end)
    assert counter.has_no_negatives(inside, inside)
    assert not counter.has_no_negatives(slice(begin - 1, end), inside)
    assert not counter.has_no_negatives(inside, slice(begin, end + 1))
