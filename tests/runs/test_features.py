"""How the head of a run starts, and heads trained on features by every loss."""

import numpy as np
import pytest
import tensorflow as tf

import profs_tf as profs
from profs_tf.config import Config
from profs_tf.inputs.features import FeatureList, feature_pipeline
from profs_tf.runs.factory import build_embedder_for, build_model, build_sampler
from profs_tf.runs.features import with_head_init


@pytest.fixture(scope="module")
def backbone_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("backbone") / "own.keras"
    layers = [tf.keras.Input((None, None, 3)), tf.keras.layers.Conv2D(8, 3)]
    tf.keras.Sequential(layers).save(path)
    return str(path)


@pytest.mark.parametrize(
    ("values", "start"),
    [
        ({"backbone": "own"}, "pca"),
        ({"backbone": "own", "head_init": "random"}, "random"),
        ({"backbone": "own", "embedding_dim": 9}, "random"),
        ({"backbone": "own", "head": "mlp"}, "random"),
        ({"backbone": "own", "initial_run": "run"}, None),
        ({}, "random"),
        ({"pretrained": "none"}, "random"),
        ({"head_init": "pca"}, "pca"),
    ],
)
def test_linear_heads_of_pretrained_backbones_start_as_whitening(values, start, backbone_file):
    config = Config(**{"backbone": "conv4", "embedding_dim": 8, **values})
    if config.backbone == "own":
        config = Config(**{"embedding_dim": 8, **values, "backbone": backbone_file})
    assert with_head_init(config, build_embedder_for(config)).head_init == start


def test_whitening_to_more_dimensions_than_features_is_refused_before_a_pass_over_the_images():
    config = Config(backbone="conv4", embedding_dim=65, head_init="pca")
    with pytest.raises(ValueError, match="`embedding_dim` must be at most the backbone's 64 features"):
        with_head_init(config, build_embedder_for(config))


@pytest.mark.parametrize("loss", profs.losses.names())
def test_every_loss_trains_a_head_with_mined_batches(loss, backbone_file):
    config = Config(
        backbone=backbone_file,
        embedding_dim=4,
        train_layers="head",
        loss=loss,
        method="profs_hncm",
        batch_size=8,
        hard_classes_per_seed=1,
        learning_rate=1e-3,
    )
    labels = np.arange(24) // 4
    pixels = np.zeros((24, 1, 1, 3), np.uint8)
    sampler = build_sampler(config, profs.datasets.ImageList.from_labels(pixels, labels))
    features = np.random.default_rng(0).normal(size=(2, 24, 8)).astype(np.float32)
    embedder = build_embedder_for(config)
    before = [weight.copy() for weight in embedder.get_weights()]
    model = build_model(config, sampler.num_classes, 3, embedder)
    history = model.fit(
        feature_pipeline(FeatureList(features, labels, tuple("abcdef")), sampler),
        epochs=1,
        steps_per_epoch=3,
        callbacks=[profs.ProfsCallback(sampler)],
        verbose=0,
    )
    assert np.isfinite(history.history["loss"]).all()
    changed = [(old != new).any() for old, new in zip(before, embedder.get_weights())]
    assert changed == [False, False, True, True]
