import numpy as np
import pytest

from profs_tf import metrics
from profs_tf.metrics import bootstrap
from profs_tf.metrics.bootstrap import class_bootstrap


def loop_bootstrap(values, labels, level, draws):
    """Takes the images of each drawn class one class after another."""
    classes = np.unique(labels)
    means = [np.mean(np.concatenate([values[labels == classes[c]] for c in drawn])) for drawn in draws]
    return np.quantile(means, [(1 - level) / 2, (1 + level) / 2])


def test_equal_to_a_loop_over_the_same_draws():
    generator = np.random.default_rng(0)
    labels, values = generator.integers(12, size=90), generator.random(90) < 0.4
    draws = np.random.default_rng(5).integers(12, size=(200, 12))
    found = class_bootstrap(values, labels, confidence=0.9, num_resamples=200, seed=5)
    np.testing.assert_allclose(found, loop_bootstrap(values, labels, 0.9, draws))


def test_the_same_in_blocks(monkeypatch):
    generator = np.random.default_rng(1)
    labels, values = generator.integers(12, size=90), generator.random(90)
    expected = class_bootstrap(values, labels)
    monkeypatch.setattr(bootstrap, "_DRAWN", 50)
    assert class_bootstrap(values, labels) == expected


def test_covers_the_true_value_as_often_as_it_says():
    generator = np.random.default_rng(2)
    covered = 0
    for seed in range(300):
        # Classes differ more than the images within: intervals over images would cover far less often.
        chance = generator.beta(2, 2, size=60)
        values = generator.random((60, 10)) < chance[:, None]
        low, high = class_bootstrap(
            values.ravel(), np.repeat(np.arange(60), 10), num_resamples=300, seed=seed
        )
        covered += low <= 0.5 <= high
    assert 0.89 <= covered / 300 <= 0.99


def test_of_a_search():
    generator = np.random.default_rng(3)
    labels = np.append(np.arange(300) % 60, [60, 61])
    embeddings = generator.standard_normal((62, 8))[labels] + generator.standard_normal((302, 8))
    result = metrics.evaluate_retrieval(embeddings, labels)
    low, high = result.recall_interval_at(2, confidence=0.8, num_resamples=500, seed=1)
    assert low < result.recall_at(2)[2] < high
    # Classes that were left out are not drawn.
    counted = labels < 60
    expected = class_bootstrap(
        result.hits_at(2)[counted], labels[counted], confidence=0.8, num_resamples=500, seed=1
    )
    assert (low, high) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"values": [[1.0]]}, r"`values` must have shape \[N\] with N >= 1, got \(1, 1\)."),
        ({"values": []}, r"`values` must have shape \[N\] with N >= 1, got \(0,\)."),
        ({"values": [0.0, np.nan]}, "`values` must be finite, got nan."),
        ({"labels": [0, 0]}, "`labels` must hold at least two classes to draw from, got 1."),
        ({"labels": [0]}, "`labels` must be as many as `values`, got 1 labels for 2"),
        ({"confidence": 1.0}, r"`confidence` must be in \(0, 1\), got 1.0."),
        ({"seed": 0.5}, "`seed` must be a whole number >= 0, got 0.5."),
        ({"num_resamples": 0}, "`num_resamples` must be a whole number >= 1, got 0."),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        class_bootstrap(**{"values": [0.0, 1.0], "labels": [0, 1], **arguments})
