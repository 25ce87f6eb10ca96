"""A head that starts as PCA whitening, against scikit-learn's."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.preprocessing import Preprocessing
from profs_tf.models.embedder import build_embedder
from profs_tf.models.head import split_at_head
from profs_tf.models.head_init import SHRINKAGE, start_by_whitening, whiten_head, whitening


def features_like_a_network_s(num_images, num_features, seed=0):
    """Correlated features with a large mean, float32 [N, C]."""
    random = np.random.default_rng(seed)
    scales = np.geomspace(3.0, 0.01, num_features)
    mixed = random.normal(size=(num_images, num_features)) * scales
    rotation = np.linalg.qr(random.normal(size=(num_features, num_features)))[0]
    return (mixed @ rotation + 5.0).astype(np.float32)


def test_without_shrinkage_it_is_scikit_learn_s_whitening(monkeypatch):
    monkeypatch.setattr("profs_tf.models.head_init.SHRINKAGE", 0.0)
    features = features_like_a_network_s(200, 12)
    kernel, bias = whitening(features, 5)
    expected = PCA(5, whiten=True, svd_solver="full").fit_transform(features.astype(np.float64))
    got = features @ kernel + bias
    signs = np.sign((got * expected).sum(axis=0))
    np.testing.assert_allclose(got * signs, expected, atol=1e-6)


def test_shrinkage_divides_by_the_shrunk_deviation():
    features = features_like_a_network_s(200, 12).astype(np.float64)
    variances = np.linalg.eigvalsh(np.cov(features.T))[::-1]
    kernel, bias = whitening(features, 4)
    shrunk = variances[:4] / (variances[:4] + SHRINKAGE * variances.mean())
    np.testing.assert_allclose(np.cov((features @ kernel + bias).T), np.diag(shrunk), atol=1e-8)
    np.testing.assert_allclose((features @ kernel + bias).mean(axis=0), 0.0, atol=1e-8)


def test_many_images_are_read_in_parts(monkeypatch):
    features = features_like_a_network_s(200, 12)
    whole = whitening(features, 5)
    monkeypatch.setattr("profs_tf.models.head_init._ROWS", 7)
    for one, other in zip(whole, whitening(features, 5)):
        np.testing.assert_allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize("num_images", [2, 5, 11])
def test_fewer_images_than_features_leave_no_direction_beyond_the_shrinkage(num_images):
    features = features_like_a_network_s(num_images, 12)
    kernel, bias = whitening(features, 12)
    assert np.isfinite(kernel).all()
    assert np.isfinite(bias).all()
    mean_variance = np.cov(features.T.astype(np.float64)).trace() / 12
    assert np.linalg.norm(kernel, axis=0).max() <= 1 / np.sqrt(SHRINKAGE * mean_variance) * (1 + 1e-9)


def test_order_of_images_does_not_turn_a_direction_around():
    features = features_like_a_network_s(50, 12)
    np.testing.assert_allclose(whitening(features, 6)[0], whitening(features[::-1], 6)[0], atol=1e-8)


@pytest.mark.parametrize(
    ("features", "embedding_dim", "message"),
    [
        (
            features_like_a_network_s(20, 3),
            4,
            "`embedding_dim` must be at most the backbone's 3 features for `head_init` pca, got 4. Pass "
            "--embedding_dim=3 or --head_init=random.",
        ),
        (np.ones((5, 3), np.float32), 2, "`head_init` pca needs finite features that differ"),
        (np.full((5, 3), np.nan, np.float32), 2, "`head_init` pca needs finite features that differ"),
    ],
)
def test_what_cannot_be_whitened_is_refused(features, embedding_dim, message):
    with pytest.raises(ValueError, match=message):
        whitening(features, embedding_dim)


def test_a_started_head_keeps_the_norm_of_the_random_one_s_outputs():
    embedder = build_embedder("conv4", 8, normalize=False, seed=0)
    features = features_like_a_network_s(100, 64)
    head = split_at_head(embedder).head
    before = head(features).numpy()
    start_by_whitening(embedder, features)
    after = head(features).numpy()
    assert np.square(after).mean() == pytest.approx(np.square(before).mean(), rel=1e-4)
    kernel, bias = whitening(features, 8)
    expected = features @ kernel + bias
    np.testing.assert_allclose(after / after[0, 0], expected / expected[0, 0], rtol=1e-2, atol=1e-3)


def test_an_embedder_s_head_is_whitened_by_the_features_of_its_images():
    pixels = np.random.default_rng(0).integers(0, 256, (40, 20, 20, 3), np.uint8)
    images = ImageList.from_labels(pixels, np.arange(40) // 2)
    embedder, expected = (build_embedder("conv4", 8, seed=0) for _ in range(2))
    whiten_head(embedder, images, Preprocessing(resize=20, crop=16), batch_size=7)
    start_by_whitening(expected, split_at_head(expected).features(pixels[:, 2:18, 2:18]).numpy())
    for found, wanted in zip(
        embedder.get_layer("head").get_weights(), expected.get_layer("head").get_weights()
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"head": "mlp"},
            "`embedder` must have a linear head, .* got 'embedder' without a dense layer 'head'",
        ),
        ({"embedding_dim": 100}, "`embedding_dim` must be at most the backbone's 64 features .* got 100"),
    ],
)
def test_heads_that_cannot_be_whitened_are_refused(options, message):
    images = ImageList.from_labels(np.zeros((4, 16, 16, 3), np.uint8), [0, 0, 1, 1])
    embedder = build_embedder("conv4", **{"embedding_dim": 8, **options})
    with pytest.raises(ValueError, match=message):
        whiten_head(embedder, images, Preprocessing(resize=16, crop=16))
