import numpy as np
import pytest

from profs_tf.metrics.exact.embeddings import EmbeddingSet, fit_centering
from profs_tf.metrics.exact.top_k import PairScores, TopK, list_candidates


@pytest.mark.parametrize("k", [1, 3, 8])
def test_candidates_hold_the_k_best_of_any_scores_within_the_error(k):
    random = np.random.default_rng(0)
    true = -random.random((20, 60))
    error = np.full(20, 0.02)
    scores = (true + random.uniform(-0.02, 0.02, true.shape)).astype(np.float32)
    least = np.sort(true, axis=1)[:, -20]
    rows, columns = list_candidates(scores, error, k, least)
    listed = set(zip(rows.tolist(), columns.tolist()))
    best = np.argsort(-true, axis=1)[:, :k]
    assert all((row, column) in listed for row in range(20) for column in best[row].tolist())
    assert len(listed) < 20 * (k + 10)


def test_the_best_of_merged_blocks_are_the_best_of_all():
    random = np.random.default_rng(0)
    scores = random.integers(-3, 0, (6, 40)).astype(np.float64)
    is_positive = random.random((6, 40)) < 0.5
    top = TopK(6, 7, 40)
    assert (top.least == -np.inf).all()
    for columns in np.split(random.permutation(40), [3, 20]):
        rows, places = np.repeat(np.arange(6), len(columns)), np.tile(columns, 6)
        block = TopK(6, 7, 40)
        block.fill(rows, scores[rows, places], is_positive[rows, places], places)
        top.merge(block)
    for row in range(6):
        order = sorted(range(40), key=lambda i: (-scores[row, i], is_positive[row, i], i))[:7]
        assert top.indices[row].tolist() == order
        assert top.scores[row].tolist() == scores[row, order].tolist()
        assert top.is_positive[row].tolist() == is_positive[row, order].tolist()
    np.testing.assert_array_equal(top.least, top.scores[:, -1])


def test_scores_of_negatives_are_raised_and_distances_are_not():
    embeddings = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    centering = fit_centering("euclidean", embeddings)
    images = EmbeddingSet(embeddings, np.zeros(3, int), centering)
    classes = np.array([0, 0, 1])
    rows, columns = np.array([0, 0]), np.array([1, 2])
    unlabeled, labeled = (
        PairScores(embeddings, embeddings, centering, c) for c in (None, (classes, classes))
    )
    plain = unlabeled.distances(rows, columns)
    np.testing.assert_array_equal(plain, np.full(2, -0.5 * centering.scale**2))
    scores, is_positive = unlabeled.ranked(images, images, rows, columns)
    np.testing.assert_array_equal(scores, plain)
    scores, is_positive = labeled.ranked(images, images, rows, columns)
    assert is_positive.tolist() == [True, False]
    assert scores[0] == plain[0] < scores[1]
    np.testing.assert_array_equal(labeled.distances(rows, columns), plain)
