from unittest import mock

import numpy as np
import pytest

from profs_tf.metrics.exact import ranking
from profs_tf.metrics.exact.ranking import rank_positives
from tests.metrics.exact.reference import rank_by_sorting

LINE = np.array([[0.0], [1.0], [3.0], [3.0]])
CLASSES = np.array([0, 0, 1, 0])


def test_the_example_of_the_docstring():
    ranks = rank_positives(LINE, CLASSES, with_precisions=True)
    assert ranks.first.tolist() == [1, 1, 0, 2]
    assert ranks.average_precision.tolist() == [1 / 2, 1 / 2, 0, 1 / 4]
    assert ranks.r_precision.tolist() == [1 / 2, 1 / 2, 0, 1 / 2]
    for values, expected in zip(ranks, rank_by_sorting(LINE, CLASSES)):
        np.testing.assert_allclose(values, expected)


def test_precisions_are_left_out_unless_asked_for():
    ranks = rank_positives(LINE, CLASSES)
    assert ranks.first.tolist() == [1, 1, 0, 2]
    assert ranks.average_precision is ranks.r_precision is None


@pytest.mark.parametrize("thresholds", [1, 1 << 24])
@pytest.mark.parametrize("num_classes", [2, 12])
def test_equals_the_reference(num_classes, thresholds):
    random = np.random.default_rng(0)
    queries, gallery = (random.integers(-3, 4, (size, 2)).astype(np.float64) for size in (40, 70))
    classes, gallery_classes = (random.integers(num_classes, size=size) for size in (40, 70))
    with mock.patch.multiple(ranking, _TILE=16, _THRESHOLDS=thresholds):
        for arguments in ((queries, classes), (queries, classes, gallery, gallery_classes)):
            found = rank_positives(*arguments, with_precisions=True)
            for values, expected in zip(found, rank_by_sorting(*arguments)):
                np.testing.assert_allclose(values, expected, rtol=1e-12)
