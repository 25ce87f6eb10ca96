import numpy as np
import pytest

from profs_tf.metrics.exact.embeddings import EmbeddingSet, fit_centering, mirrored, row_blocks, score_error


@pytest.mark.parametrize("factor", [1e-300, 1.0, 1e300])
def test_rows_are_centered_and_in_unit_range(factor):
    embeddings = factor * np.random.default_rng(0).uniform(3, 9, (50, 4))
    centering = fit_centering("euclidean", embeddings)
    rows = centering.rows(embeddings, slice(0, 50))
    np.testing.assert_allclose(rows.mean(axis=0), 0, atol=1e-12)
    assert 0.5 <= np.abs(rows).max() <= 1
    np.testing.assert_allclose(centering.norms_sq(embeddings), (rows**2).sum(axis=1))
    assert np.frexp(centering.scale)[0] == 0.5


def test_queries_outside_the_gallery_are_in_range_too():
    gallery = np.random.default_rng(0).uniform(-1, 1, (20, 3))
    queries = 40 * gallery[:5]
    centering = fit_centering("euclidean", gallery, queries)
    assert np.abs(centering.rows(queries, slice(0, 5))).max() <= 1
    np.testing.assert_allclose(centering.center, gallery.mean(axis=0) * centering.scale)


def test_cosine_rows_do_not_depend_on_lengths():
    embeddings = np.random.default_rng(0).standard_normal((20, 3))
    lengths = 10.0 ** np.linspace(-200, 200, 20)[:, None]
    centering = fit_centering("cosine", embeddings)
    every = slice(0, 20)
    np.testing.assert_allclose(
        centering.rows(embeddings * lengths, every), centering.rows(embeddings, every), atol=1e-14
    )


def test_a_set_is_sorted_by_class():
    random = np.random.default_rng(0)
    embeddings, classes = random.standard_normal((9, 2)), np.array([2, 0, 2, 5, 0, 2, 5, 5, 0])
    centering = fit_centering("euclidean", embeddings)
    images = EmbeddingSet(embeddings, classes, centering)
    assert images.order.tolist() == [1, 4, 8, 0, 2, 5, 3, 6, 7]
    assert images.classes.tolist() == sorted(classes)
    np.testing.assert_array_equal(images.rows(slice(2, 5)), centering.rows(embeddings, np.array([8, 0, 2])))
    begins, ends = images.class_range(np.array([0, 2, 3, 5]))
    assert begins.tolist() == [0, 3, 6, 6]
    assert ends.tolist() == [3, 6, 6, 9]


@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_products_of_blocks_are_scores_within_the_bound(offset):
    random = np.random.default_rng(0)
    embeddings = offset + random.standard_normal((200, 30))
    images = EmbeddingSet(embeddings, np.zeros(200, int), fit_centering("euclidean", embeddings))
    rows, columns = slice(0, 150), slice(50, 200)
    scores = images.float32_block(rows) @ mirrored(images.float32_block(columns)).T
    exact = -((images.rows(rows)[:, None] - images.rows(columns)) ** 2).sum(axis=-1) / 2
    error = score_error(images, images, rows, columns)
    assert (np.abs(scores - exact) <= error[:, None]).all()
    assert error.max() < 1e-3


def test_blocks_cover_all_rows():
    for shape in ((0, 3), (1, 3), (100_000, 7), (5, 1 << 20)):
        covered = [row for block in row_blocks(shape) for row in range(block.start, block.stop)]
        assert covered == list(range(shape[0]))
