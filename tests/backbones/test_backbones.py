"""What every backbone has in common: the registry, the scale of images, stock layers, seeds."""

import inspect
import re

import numpy as np
import pytest
import tensorflow as tf

from profs_tf import backbones

CHANNELS = {
    "bn_inception": 1024,
    "conv4": 64,
    "efficientnet_lite0": 1280,
    "efficientnet_lite1": 1280,
    "efficientnet_lite2": 1280,
    "googlenet": 1024,
    "inception_v1": 1024,
    "inception_v2": 1024,
    "resnet50": 2048,
}
# The others are larger ones of the same family.
BUILT = sorted(set(CHANNELS) - {"efficientnet_lite1", "efficientnet_lite2"})


@pytest.fixture(scope="module", params=BUILT)
def built(request):
    return request.param, backbones.get(request.param)((64, 64, 3), seed=0)


@pytest.fixture(scope="module")
def half(built):
    """The same network again, with the same seed, another momentum and in half precision."""
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        momentum = None if built[0] == "googlenet" else 0.5
        return backbones.get(built[0])((64, 64, 3), seed=0, batch_norm_momentum=momentum)
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")


def test_registered_names():
    assert backbones.names() == sorted(CHANNELS)
    for name in backbones.names():
        assert backbones.get(name).name == name


@pytest.mark.parametrize("name", ["vgg", "", "Conv4", None, ["conv4"]])
def test_unknown_names_list_the_valid_ones(name):
    with pytest.raises(ValueError, match=f"`backbone` must be one of {', '.join(sorted(CHANNELS))}"):
        backbones.get(name)


def test_one_way_to_call_them():
    signatures = {str(inspect.signature(backbones.get(name).build)) for name in backbones.names()}
    assert len(signatures) == 1


def test_published_weights_have_origin_license_format_and_address():
    published = {name: backbones.get(name).published for name in backbones.names()}
    assert [name for name, weights in published.items() if weights is None] == ["conv4"]
    for weights in filter(None, published.values()):
        assert all((weights.origin, weights.license, weights.file_format, weights.files))
        assert re.match("https?://", weights.url)


def test_smaller_images_than_the_smallest_are_refused():
    smallest = {name: backbones.get(name).min_size for name in backbones.names()}
    assert smallest == {
        "bn_inception": 7, "conv4": 16, "googlenet": 31, "inception_v1": 1, "inception_v2": 1, "resnet50": 32,
        **{f"efficientnet_lite{variant}": 1 for variant in range(3)}
    }  # fmt: skip
    for name, side in smallest.items():
        with pytest.raises(ValueError, match=f"of at least {side} pixels for {name}, got"):
            backbones.get(name)((side, side - 1, 3))


def test_feature_map(built):
    name, network = built
    assert network.name == name
    assert network.output_shape == (
        None,
        *([64 // 32] * 2 if name != "conv4" else [64 // 16] * 2),
        CHANNELS[name],
    )


def test_layers_are_keras_own(built):
    assert {type(layer).__module__.split(".")[0] for layer in built[1].layers} <= {"keras", "tf_keras"}


def test_same_seed_same_bits(built, half):
    for left, right in zip(built[1].get_weights(), half.get_weights()):
        np.testing.assert_array_equal(left, right)


def test_momentum_of_the_statistics(built, half):
    for network, momentum in ((built[1], 0.9), (half, 0.5)):
        norms = [layer for layer in network.layers if isinstance(layer, tf.keras.layers.BatchNormalization)]
        assert {layer.momentum for layer in norms} == (set() if built[0] == "googlenet" else {momentum})


def test_first_convolution_sees_values_about_zero(built):
    """Images are 0..255 everywhere; scaling them is the network's own business."""
    _, network = built
    scaled = tf.keras.Model(network.input, network.get_layer("rescale").output)
    gray = scaled(np.full((1, 64, 64, 3), 120, "f")).numpy()
    ends = scaled(np.stack([np.zeros((64, 64, 3), "f"), np.full((64, 64, 3), 255, "f")])).numpy()
    assert np.abs(gray).max() < 0.2 * ends.max()
    assert ends[0].max() < 0 < ends[1].min()


def test_scaling_is_exact_in_half_precision(half):
    scaled = tf.keras.Model(half.input, half.get_layer("rescale").output)
    values = np.broadcast_to(np.arange(64, dtype="f")[:, None, None] * 4 + 0.5, (1, 64, 64, 3))
    assert half.output.dtype == tf.bfloat16
    assert scaled(values).dtype == tf.float32
    assert len(np.unique(scaled(values).numpy()[..., 0])) == 64
