"""Features computed once, plain and mirrored, and embedded by the head alone."""

import numpy as np
import pytest

from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.preprocessing import Preprocessing
from profs_tf.models.embedder import build_embedder
from profs_tf.models.features import pooled_features
from profs_tf.models.head import split_at_head
from profs_tf.models.inference import embed

PIXELS = np.random.default_rng(0).integers(0, 256, (7, 20, 20, 3), np.uint8)
IMAGES = ImageList.from_labels(PIXELS, list("aabbccc"))
PREPROCESSING = Preprocessing(resize=20, crop=16, shift=3)
CENTERS = PIXELS[:, 2:18, 2:18]


@pytest.fixture(scope="module")
def embedder():
    return build_embedder("conv4", 8, seed=0)


@pytest.mark.parametrize("mirrored", [False, True])
def test_views_are_the_central_crop_and_its_mirror_image(embedder, mirrored):
    backbone = split_at_head(embedder).features
    found = pooled_features(backbone, IMAGES, PREPROCESSING, mirrored=mirrored, batch_size=3)
    views = [CENTERS, CENTERS[:, :, ::-1]][: 1 + mirrored]
    assert (len(found), found.class_names, found.features.shape) == (7, ("a", "b", "c"), (len(views), 7, 64))
    np.testing.assert_array_equal(found.labels, IMAGES.labels)
    for features, view in zip(found.features, views):
        np.testing.assert_allclose(features, backbone(view), rtol=1e-4, atol=1e-5)


def test_the_head_embeds_features_as_the_embedder_does_images(embedder):
    backbone, head = split_at_head(embedder)
    features = pooled_features(backbone, IMAGES, PREPROCESSING, mirrored=True)
    expected = embed(embedder, IMAGES, preprocessing=PREPROCESSING)
    np.testing.assert_allclose(embed(head, features, batch_size=3), expected, atol=1e-5)


def test_a_cache_returns_the_same_features_without_computing_them(embedder, tmp_path, monkeypatch):
    backbone = split_at_head(embedder).features

    def cached(images=IMAGES, preprocessing=PREPROCESSING, **arguments):
        return pooled_features(backbone, images, preprocessing, cache_dir=str(tmp_path), **arguments).features

    expected = pooled_features(backbone, IMAGES, PREPROCESSING, mirrored=True).features
    np.testing.assert_array_equal(cached(mirrored=True), expected)
    with monkeypatch.context() as patch:
        patch.setattr("profs_tf.models.features.embed", None)
        np.testing.assert_array_equal(cached(mirrored=True), expected)
    # Whatever features depend on has a file of its own.
    cached()
    cached(preprocessing=Preprocessing(resize=20, crop=18))
    cached(images=ImageList.from_labels(255 - PIXELS, list("aabbccc")))
    kernel = backbone.weights[0]
    kernel.assign(kernel * 2)
    assert not np.array_equal(cached(mirrored=True), expected)
    kernel.assign(kernel / 2)
    assert len(list(tmp_path.glob("features-*.npy"))) == 5
