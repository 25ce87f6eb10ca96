import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score

from profs_tf.metrics.agreement import adjusted_mutual_information, normalized_mutual_information, pair_f1


@st.composite
def partitions(draw):
    size = draw(st.integers(1, 60))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def one():
        kind = draw(st.sampled_from(["random", "random", "single", "apart"]))
        numbers = draw(st.integers(1, size))
        return {"random": generator.integers(numbers, size=size), "single": np.zeros(size, int)}.get(
            kind, generator.permutation(size)
        )

    classes = one()
    return classes, draw(st.sampled_from([one(), classes]))


def loop_pair_f1(classes, clusters):
    true_positives = predicted = positives = 0
    for i in range(len(classes)):
        for j in range(i):
            predicted += clusters[i] == clusters[j]
            positives += classes[i] == classes[j]
            true_positives += clusters[i] == clusters[j] and classes[i] == classes[j]
    if not predicted and not positives:
        return 1.0
    if not true_positives:
        return 0.0
    precision, recall = true_positives / predicted, true_positives / positives
    return 2 * precision * recall / (precision + recall)


@settings(deadline=None, max_examples=120)
@given(partitions())
def test_equal_to_the_definitions(both):
    classes, clusters = both
    assert pair_f1(classes, clusters) == pytest.approx(loop_pair_f1(classes, clusters), abs=1e-12)
    assert normalized_mutual_information(classes, clusters) == pytest.approx(
        normalized_mutual_info_score(classes, clusters, average_method="arithmetic")
    )
    ours = adjusted_mutual_information(classes, clusters)
    theirs = adjusted_mutual_info_score(classes, clusters)
    if len(np.unique(classes)) == len(np.unique(clusters)) == len(classes):
        # 0 / 0, of which scikit-learn makes what its rounding errors are.
        assert ours == 1.0
    else:
        assert ours == pytest.approx(theirs, abs=1e-8)


def test_equal_to_scikit_learn_at_a_thousand_classes():
    generator = np.random.default_rng(0)
    classes = generator.integers(1000, size=5000)
    clusters = np.where(generator.random(5000) < 0.7, classes, generator.integers(1000, size=5000))
    assert adjusted_mutual_information(classes, clusters) == pytest.approx(
        adjusted_mutual_info_score(classes, clusters), abs=1e-9
    )


def test_fast_at_the_size_of_stanford_online_products():
    generator = np.random.default_rng(1)
    classes = generator.integers(11316, size=60502)
    clusters = np.where(generator.random(60502) < 0.7, classes, generator.integers(11316, size=60502))
    start = time.perf_counter()
    adjusted_mutual_information(classes, clusters)
    # scikit-learn's takes more than a minute.
    assert time.perf_counter() - start < 10


def test_pairs_beyond_32_bits():
    # 2e10 pairs, all of them true positives.
    assert pair_f1(np.zeros(200_000, int), np.zeros(200_000, int)) == 1.0
    halves = np.arange(200_000) % 2
    assert pair_f1(np.zeros(200_000, int), halves) == pytest.approx(2 / 3, rel=1e-4)
