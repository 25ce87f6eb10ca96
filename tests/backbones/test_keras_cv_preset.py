"""KerasCV's presets as backbones, from folders; names go the same way after a download."""

import numpy as np
import pytest
import tensorflow as tf

import profs_tf as profs
from profs_tf import backbones

keras_cv = pytest.importorskip("keras_cv")
from keras_cv.src.utils.preset_utils import save_to_preset  # noqa: E402


def resnet(**options):
    sizes = {"stackwise_filters": [4, 8], "stackwise_blocks": [1, 1], "stackwise_strides": [1, 2]}
    return keras_cv.models.ResNetBackbone(**{**sizes, "include_rescaling": True, **options})


@pytest.fixture(scope="module")
def presets(tmp_path_factory):
    """A model, and its presets with and without weights."""
    folder = tmp_path_factory.mktemp("presets")
    model = resnet()
    for name, save_weights in (("weights", True), ("none", False)):
        save_to_preset(model, str(folder / name), save_weights=save_weights)
    return model, f"keras_cv:{folder / 'weights'}", f"keras_cv:{folder / 'none'}"


def images():
    return np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3)).astype(np.float32)


def test_the_presets_weights(presets):
    model, preset, _ = presets
    network = backbones.get(preset)((32, 32, 3), seed=0)
    np.testing.assert_allclose(network(images()), model(images()), atol=1e-6)


def test_without_weights_the_seed_draws_them(presets):
    drawn = [backbones.get(presets[2])((32, 32, 3), seed=seed).get_weights()[0] for seed in (0, 0, 1)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert np.all(drawn[0] != drawn[2])


def test_the_embedder_needs_no_keras_cv(presets, tmp_path):
    embedder = profs.build_embedder(presets[1], 5, input_size=32, seed=0)
    own = [module for module in embedder.submodules if isinstance(module, tf.keras.layers.Layer)]
    assert {type(layer).__module__.split(".")[0] for layer in own} <= {"keras", "tf_keras"}
    embedder.save(tmp_path / "embedder.keras")
    loaded = tf.keras.models.load_model(tmp_path / "embedder.keras")
    np.testing.assert_allclose(loaded(images()), embedder(images()), atol=1e-6)


def test_images_are_scaled_even_where_the_preset_leaves_it_out(presets, tmp_path):
    save_to_preset(resnet(include_rescaling=False), str(tmp_path / "raw"), save_weights=False)
    network = backbones.get(f"keras_cv:{tmp_path / 'raw'}")((32, 32, 3))
    assert any(isinstance(layer, tf.keras.layers.Rescaling) for layer in network.layers)


def test_unknown_presets_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"`backbone` must be keras_cv: and a preset.*got 'nothing'"):
        backbones.get("keras_cv:nothing")((32, 32, 3))
    with pytest.raises(ValueError, match=r"`backbone` must be keras_cv: and a preset"):
        backbones.get(f"keras_cv:{tmp_path}")((32, 32, 3))


@pytest.mark.parametrize("option", [{"pretrained": "imagenet"}, {"batch_norm_momentum": 0.9}])
def test_options_it_cannot_take(presets, option):
    with pytest.raises(ValueError, match="must be None for the backbone"):
        backbones.get(presets[1])((32, 32, 3), **option)
