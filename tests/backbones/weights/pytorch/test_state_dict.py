"""State dicts in Keras layers: the order of axes, what is left out and what is refused, on two layers."""

import re

import numpy as np
import pytest
import tensorflow as tf

from profs_tf.backbones.weights.pytorch.state_dict import load_state_dict
from tests.backbones import torch_files
from tests.backbones.weights.drawn_arrays import draw

WEIGHTS = {
    "first.weight": (4, 3, 5, 2),
    "first.bias": (4,),
    "first_bn.weight": (4,),
    "first_bn.bias": (4,),
    "first_bn.running_mean": (4,),
    "first_bn.running_var": (4,),
    "second.weight": (2, 4, 1, 1),
    "second.bias": (2,),
}
EXTRAS = {
    "first_bn.num_batches_tracked": (),
    "last_linear.weight": (10, 2),
    "last_linear.bias": (10,),
    "fc.weight": (10, 2),
    "fc.bias": (10,),
}


@pytest.fixture
def model():
    images = tf.keras.Input((None, None, 3))
    x = tf.keras.layers.Conv2D(4, (5, 2), name="first")(images)
    x = tf.keras.layers.BatchNormalization(name="first_bn")(x)
    return tf.keras.Model(images, tf.keras.layers.Conv2D(2, 1, name="second")(x), name="net")


def load(model, folder, values, bgr_input="none"):
    load_state_dict(model, torch_files.save(folder / "net.pth", values), bgr_input)


def test_every_weight_has_its_place(model, tmp_path):
    values = draw({**WEIGHTS, **EXTRAS})
    load(model, tmp_path, values)
    first, norm, second = (model.get_layer(name).get_weights() for name in ("first", "first_bn", "second"))
    want = values["first.weight"]
    for out, channel, row, column in np.ndindex(want.shape):
        assert first[0][row, column, channel, out] == want[out, channel, row, column]
    np.testing.assert_array_equal(second[0][0, 0], values["second.weight"][:, :, 0, 0].T)
    for got, name in zip([first[1], second[1], *norm], ["first.bias", "second.bias", *list(WEIGHTS)[2:6]]):
        np.testing.assert_array_equal(got, values[name])


def test_rgb_in_gives_what_bgr_gave(model, tmp_path):
    values = draw(WEIGHTS)
    load(model, tmp_path, values)
    images = np.random.default_rng(1).uniform(-1, 1, (2, 8, 8, 3)).astype(np.float32)
    bgr_input = model(images[..., ::-1])
    load(model, tmp_path, values, bgr_input="first")
    np.testing.assert_allclose(model(images), bgr_input, atol=1e-5)
    assert np.abs(model(images[..., ::-1]) - bgr_input).max() > 0.01


def test_vectors_of_the_early_release(model, tmp_path):
    """It has the vectors of batch normalization as [1, C]."""
    values = draw(WEIGHTS)
    load(model, tmp_path, {name: value[None] if "_bn" in name else value for name, value in values.items()})
    np.testing.assert_array_equal(model.get_layer("first_bn").moving_mean, values["first_bn.running_mean"])


def refused(model, folder, values, message):
    """Loading fails with ``message``, and the model is as it was."""
    before = model.get_weights()
    with pytest.raises(ValueError, match=message) as caught:
        load(model, folder, values)
    assert re.match("`pretrained` must ", str(caught.value))
    assert "net.pth" in str(caught.value)
    for left, right in zip(model.get_weights(), before):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("missing", list(WEIGHTS)[::3])
def test_one_missing_tensor(model, tmp_path, missing):
    refused(
        model,
        tmp_path,
        draw({name: shape for name, shape in WEIGHTS.items() if name != missing}),
        f"state dict of net with its 8 weights, got .*: {missing} is missing",
    )


@pytest.mark.parametrize(
    "extra", ["third.weight", "first_bn.weight_orig", "head.fc.weight", "module.first.bias"]
)
def test_a_tensor_without_place(model, tmp_path, extra):
    refused(model, tmp_path, draw({**WEIGHTS, extra: (2,)}), f"{extra} does not belong to the model")


@pytest.mark.parametrize("shape", [(5, 2, 3, 4), (4, 3, 2, 5), (3, 4, 5, 2), (4, 30), (120,)])
def test_a_kernel_in_another_order(model, tmp_path, shape):
    message = re.escape(f"first.weight has shape {list(shape)} instead of [4, 3, 5, 2]")
    refused(model, tmp_path, draw({**WEIGHTS, "first.weight": shape}), message)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_weights_that_are_not_finite(model, tmp_path, bad):
    values = draw(WEIGHTS)
    values["second.weight"][0, 1] = bad
    refused(model, tmp_path, values, "finite weights.*NaN or infinite: 1 of \\d+ in second.weight")
