from unittest import mock

import numpy as np
import pytest

from profs_tf.metrics.exact import positives
from profs_tf.metrics.exact.embeddings import EmbeddingSet, fit_centering
from profs_tf.metrics.exact.positives import Thresholds, all_positives, count_positives, nearest_positives


def make_sets(own_set):
    random = np.random.default_rng(0)
    embeddings, others = random.standard_normal((60, 4)), random.standard_normal((90, 4))
    centering = fit_centering("euclidean", others, embeddings)
    queries = EmbeddingSet(embeddings, random.integers(12, size=60), centering)
    return queries, queries if own_set else EmbeddingSet(others, random.integers(12, size=90) + 3, centering)


def scores_by_loop(queries, gallery, own_set):
    """Each query's scores with its positives, the nearest first."""
    rows, columns = queries.rows(slice(0, len(queries))), gallery.rows(slice(0, len(gallery)))
    return [
        sorted(
            (
                -((rows[q] - columns[i]) ** 2).sum() / 2
                for i in range(len(gallery))
                if gallery.classes[i] == queries.classes[q] and not (own_set and i == q)
            ),
            reverse=True,
        )
        for q in range(len(queries))
    ]


@pytest.mark.parametrize("own_set", [True, False])
@pytest.mark.parametrize("block", [1, 1 << 22])
def test_thresholds_are_the_scores_with_positives(own_set, block):
    queries, gallery = make_sets(own_set)
    expected = scores_by_loop(queries, gallery, own_set)
    assert count_positives(queries, gallery, own_set).tolist() == [len(scores) for scores in expected]
    with mock.patch.multiple(positives, _BLOCK_ELEMENTS=block, _LEAST_QUERIES=2, _ROWS=20):
        found = nearest_positives(queries, gallery, own_set)
        some = all_positives(queries, gallery, own_set, slice(7, 41))
    nearest = [scores[:1] for scores in expected]
    assert found.starts.tolist() == np.cumsum([0, *map(len, nearest)]).tolist()
    np.testing.assert_allclose(found.scores, np.concatenate(nearest), atol=1e-14)
    assert some.starts.tolist() == np.cumsum([0, *map(len, expected[7:41])]).tolist()
    np.testing.assert_allclose(some.scores, np.concatenate(expected[7:41]), atol=1e-14)


def test_first_at_most_searches_each_range():
    scores = np.array([-1.0, -2.0, -2.0, -5.0, 0.0, -1.0])
    thresholds = Thresholds(np.array([0, 4, 6]), scores)
    begin, end = np.array([0, 0, 0, 0, 4, 4, 6]), np.array([4, 4, 4, 4, 6, 6, 6])
    values = np.array([0.0, -2.0, -3.0, -9.0, -0.5, -1.0, 0.0])
    assert thresholds.first_at_most(begin, end, values).tolist() == [0, 1, 3, 4, 5, 5, 6]
