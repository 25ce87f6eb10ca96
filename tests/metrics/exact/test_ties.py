import numpy as np
import pytest

from profs_tf import metrics
from profs_tf.metrics.exact.ties import TIE_TOLERANCE, raise_negatives, rank_order, tie_widths
from profs_tf.visual.gallery_content import find_neighborhoods


def test_negatives_are_raised_by_half_the_widths():
    widths = tie_widths(np.array([4.0, 2.0]))
    np.testing.assert_array_equal(widths, [4 * TIE_TOLERANCE, 2 * TIE_TOLERANCE])
    assert raise_negatives(np.array([0.0]), widths[:1], widths[1:]) == [3 * TIE_TOLERANCE]


def test_order_is_by_score_then_negatives_then_index():
    scores = np.array([[-1.0, -1.0, -1.0, -0.5, -2.0]])
    is_positive = np.array([[True, False, False, True, False]])
    indices = np.array([[0, 9, 4, 7, 8]])
    assert rank_order(scores, is_positive, indices).tolist() == [[3, 2, 1, 0, 4]]


@pytest.mark.parametrize("distance", ["euclidean", "cosine"])
@pytest.mark.parametrize("offset", [0.0, 1e-14])
def test_recall_neighbor_lists_and_the_gallery_rank_ties_alike(distance, offset):
    # The first image ties with its positive, the second, and with a negative, the third.
    embeddings = np.array([[1.0, 0.0], [0.0, 1.0], [-offset, -1.0], [-1.0, 0.0]])
    labels = np.array([0, 0, 1, 1])
    ranks = metrics.evaluate_retrieval(embeddings, labels, distance=distance).ranks
    own = np.arange(4)
    indices, _ = metrics.nearest(
        embeddings, embeddings, 3, distance=distance, own=own, labels=labels, gallery_labels=labels
    )
    gallery = find_neighborhoods(embeddings, labels, 3, distance=distance)
    assert indices[0].tolist() == [2, 1, 3]
    assert ranks[0] == 2
    np.testing.assert_array_equal(gallery.indices, indices)
    assert not gallery.nearest_is_positive[0]
    positives = labels[indices] == labels[:, None]
    np.testing.assert_array_equal(positives.argmax(axis=1) + 1, ranks)
    np.testing.assert_array_equal(gallery.nearest_is_positive, ranks == 1)


def test_without_labels_ties_keep_the_order_of_the_gallery():
    embeddings = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    indices, _ = metrics.nearest(embeddings, embeddings, 2, own=np.arange(3))
    assert indices[0].tolist() == [1, 2]


def test_beyond_the_tolerance_distance_decides():
    embeddings = np.array([[1.0, 0.0], [0.0, 1.0], [-1e-10, -1.0]])
    labels = np.array([0, 0, 1])
    assert metrics.evaluate_retrieval(embeddings, labels).ranks[0] == 1
    indices, _ = metrics.nearest(
        embeddings[:1], embeddings, 2, own=[0], labels=labels[:1], gallery_labels=labels
    )
    assert indices[0].tolist() == [1, 2]
