"""Assigning the weights of a file: all of them or none, and the error that lists what is wrong."""

import re

import numpy as np
import pytest
import tensorflow as tf

from profs_tf.backbones.weights.assign import (
    WeightSpec,
    assign_arrays,
    check_finite,
    outputs_first_spec,
    variables_by_name,
)
from tests.backbones.weights.drawn_arrays import draw

SHAPES = {"conv/w": (4, 3, 5, 2), "conv/b": (4,), "last/w": (2, 4, 1, 1), "last/b": (2,)}


@pytest.fixture
def model():
    images = tf.keras.Input((None, None, 3))
    x = tf.keras.layers.Conv2D(4, (5, 2), name="conv")(images)
    return tf.keras.Model(images, tf.keras.layers.Conv2D(2, 1, name="last")(x))


def assign(model, arrays, **options):
    specs = {
        f"{layer}/{word}": outputs_first_spec(variable, bgr_input=False)
        for (layer, word), variable in variables_by_name(model, {"kernel": "w", "bias": "b"}).items()
    }
    assign_arrays(specs, arrays, path="file", content="weights of net", **options)


def refused(model, arrays, message, **options):
    before = model.get_weights()
    with pytest.raises(ValueError, match=message):
        assign(model, arrays, **options)
    for left, right in zip(model.get_weights(), before):
        np.testing.assert_array_equal(left, right)


def test_every_weight_is_assigned_with_its_axes_in_order(model):
    values = draw(SHAPES)
    assign(model, values)
    for layer in ("conv", "last"):
        kernel, bias = model.get_layer(layer).get_weights()
        for out, channel, row, column in np.ndindex(values[f"{layer}/w"].shape):
            assert kernel[row, column, channel, out] == values[f"{layer}/w"][out, channel, row, column]
        np.testing.assert_array_equal(bias, values[f"{layer}/b"])


def test_a_bgr_kernel_is_reversed_along_its_input_channels(model):
    spec = outputs_first_spec(model.get_layer("conv").kernel, bgr_input=True)
    kernel = draw(SHAPES)["conv/w"]
    np.testing.assert_array_equal(spec.to_keras(kernel), kernel[:, ::-1].transpose(2, 3, 1, 0))
    assert spec.shape == kernel.shape


@pytest.mark.parametrize("missing", SHAPES)
def test_a_missing_weight(model, missing):
    values = draw(SHAPES)
    del values[missing]
    refused(
        model,
        values,
        f"must be weights of net with its 4 weights, got 'file' with 3 .*: {missing} is missing",
    )


@pytest.mark.parametrize(("name", "shape"), [("conv/w", (5, 2, 3, 4)), ("conv/w", (4, 30)), ("last/b", (3,))])
def test_another_shape(model, name, shape):
    values = draw({**SHAPES, name: shape})
    refused(model, values, re.escape(f"{name} has shape {list(shape)} instead of {list(SHAPES[name])}"))


def test_a_weight_of_another_network_unless_it_may_be_ignored(model):
    values = draw({**SHAPES, "more/w": (2,)})
    refused(model, values, "more/w does not belong to the model")
    refused(model, values, "more/w does not belong to the model", ignored=re.compile("less"))
    assign(model, values, ignored=re.compile("more/"))


def test_all_problems_are_listed_up_to_ten(model):
    values = draw({**SHAPES, "last/b": (3,), **{f"more/{number}": (2,) for number in range(20)}})
    del values["conv/w"]
    refused(model, values, r"conv/w is missing; last/b has shape \[3\] .*; more/0 does not .*; and 12 more\.")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_weight_that_is_not_finite(model, bad):
    values = draw(SHAPES)
    values["last/w"][0, 1] = bad
    refused(model, values, "`pretrained` must have finite weights, got 'file', .*: 1 of 8 in last/w. Save it")
    assign(model, draw(SHAPES))
    model.get_layer("last").kernel.assign(np.full((1, 1, 4, 2), bad))
    with pytest.raises(ValueError, match="`argument` must have finite weights, got 'path', .*: 8 of 8 in"):
        check_finite(model, "argument", "path")


def test_integers_are_finite():
    counted = tf.keras.layers.Normalization()
    counted.adapt(np.ones((3, 2)))
    assert any(not variable.dtype.is_floating for variable in counted.weights)
    check_finite(tf.keras.Sequential([counted]), "argument", "path")


def test_the_default_spec_keeps_the_axes(model):
    variable = model.get_layer("last").kernel
    spec = WeightSpec(variable, tuple(variable.shape))
    np.testing.assert_array_equal(spec.to_keras(variable.numpy()), variable)
