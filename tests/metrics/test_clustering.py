import numpy as np
import pytest
from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score

from profs_tf.metrics import cluster_scores, kmeans


def groups(size=600, num_groups=30, spread=0.5):
    generator = np.random.default_rng(0)
    labels = generator.integers(num_groups, size=size)
    centers = generator.standard_normal((num_groups, 16))
    return (centers[labels] + spread * generator.standard_normal((size, 16))).astype(np.float32), labels


def test_scores_the_clusters_of_k_means():
    embeddings, labels = groups()
    scores = cluster_scores(embeddings, labels, seed=3)
    found = kmeans(embeddings, 30, seed=3)
    assert scores.nmi == pytest.approx(normalized_mutual_info_score(labels, found.assignments))
    assert scores.ami == pytest.approx(adjusted_mutual_info_score(labels, found.assignments))
    assert (scores.iterations, scores.converged) == (found.iterations, found.converged)


def test_separate_classes_score_one():
    embeddings, labels = groups(spread=1e-3)
    scores = cluster_scores(embeddings, labels, num_starts=10)
    assert scores[:3] == pytest.approx((1.0, 1.0, 1.0))


def test_a_collapsed_model_scores_near_chance():
    _, labels = groups()
    scores = cluster_scores(np.ones((600, 8), np.float32), labels)
    assert scores.ami == pytest.approx(0.0, abs=0.05)
    assert scores.f1 < 0.1


def test_labels_of_any_kind():
    embeddings, labels = groups()
    expected = pytest.approx(cluster_scores(embeddings, labels))
    assert cluster_scores(embeddings, [f"class {label}" for label in labels]) == expected
    assert cluster_scores(embeddings, labels[:, None] * -7.0) == expected


def test_one_class_and_single_images():
    embeddings, _ = groups(size=20)
    assert cluster_scores(embeddings, np.zeros(20, int))[:3] == (1.0, 1.0, 1.0)
    assert cluster_scores(embeddings, np.arange(20))[:3] == pytest.approx((1.0, 1.0, 1.0))


def test_hands_options_on_to_k_means():
    embeddings, labels = groups()
    assert cluster_scores(embeddings, labels, max_iterations=1).iterations == 1
    with pytest.raises(ValueError, match="`max_iterations` must be a whole number >= 1, got 0"):
        cluster_scores(embeddings, labels, max_iterations=0)
    with pytest.raises(ValueError, match="`labels` must be as many as `embeddings`, got 599 labels for 600"):
        cluster_scores(embeddings, labels[:-1])
