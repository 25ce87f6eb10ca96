from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profs_tf.metrics.exact import matmul
from profs_tf.metrics.exact.embeddings import fit_centering
from profs_tf.metrics.exact.matmul import open_product
from profs_tf.metrics.k_means import assign


@pytest.mark.parametrize("backend", ["numpy", "tensorflow"])
@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(3, 70))
def test_blocks_of_products_give_what_all_scores_give(backend, seed, block):
    generator = np.random.default_rng(seed)
    embeddings = generator.standard_normal((60, 5)).astype(np.float32)
    with mock.patch.object(matmul, "BLOCK", block), open_product(backend, 0) as product:
        nearest = assign.NearestCenters(embeddings, fit_centering("euclidean", embeddings), product)
        centers = generator.standard_normal((17, 5)).astype(np.float32)
        scores = nearest.points[:, :-1] @ centers.T - (centers**2).sum(axis=1) / 2
        numbers, best = nearest.find(centers)
        np.testing.assert_array_equal(numbers, scores.argmax(axis=1))
        np.testing.assert_allclose(best, scores.max(axis=1), atol=1e-5)
        some = generator.permutation(60)[:9]
        np.testing.assert_array_equal(nearest.find(centers, some)[0], numbers[some])
        norms_sq = (nearest.points[:, :-1].astype(np.float64) ** 2).sum(axis=1)
        limits_sq = generator.uniform(0, 1, 60)
        images, others = generator.permutation(60)[:40], generator.permutation(60)[:25]
        first, second, distances_sq = nearest.list_close(images, others, norms_sq, limits_sq)
    between = ((nearest.points[:, None].astype(np.float64) - nearest.points) ** 2).sum(axis=-1)
    np.testing.assert_allclose(distances_sq, between[first, second], atol=1e-5)
    listed = set(zip(first.tolist(), second.tolist()))
    assert len(listed) == len(first)
    for image in images.tolist():
        for other in others.tolist():
            limit = max(limits_sq[image], limits_sq[other])
            # What float32 rounds is decided by neither.
            if abs(between[image, other] - limit) > 1e-5:
                assert ((image, other) in listed) == (between[image, other] < limit)
