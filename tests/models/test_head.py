"""The head: its kinds, its variables, and the embedder divided at it."""

import numpy as np
import pytest
import tensorflow as tf

from profs_tf.models.embedder import build_embedder
from profs_tf.models.head import head_variables, split_at_head

IMAGES = np.random.default_rng(0).integers(0, 256, (3, 16, 16, 3), np.uint8)


@pytest.fixture(scope="module")
def embedder():
    return build_embedder("conv4", 8)


@pytest.mark.parametrize("kind", ["linear", "mlp"])
@pytest.mark.parametrize("normalize", [True, False])
def test_the_parts_make_up_the_embedder_and_share_its_weights(kind, normalize):
    embedder = build_embedder("conv4", 8, head=kind, normalize=normalize, seed=0)
    parts = split_at_head(embedder)
    features = parts.features(IMAGES)
    assert features.shape == (3, 64)
    np.testing.assert_array_equal(parts.head(features), embedder(IMAGES))
    for variable in head_variables(parts.head):
        variable.assign_add(tf.ones_like(variable))
    np.testing.assert_array_equal(parts.head(features), embedder(IMAGES))
    assert len(parts.head.trainable_variables) == {"linear": 2, "mlp": 4}[kind]


def test_parts_of_a_backbone_without_pooling():
    backbone = tf.keras.Sequential([tf.keras.Input((16, 16, 3)), tf.keras.layers.Flatten()])
    backbone.add(tf.keras.layers.Dense(5))
    embedder = build_embedder(backbone, 2)
    parts = split_at_head(embedder)
    assert parts.features.output_shape == (None, 5)
    np.testing.assert_array_equal(parts.head(parts.features(IMAGES)), embedder(IMAGES))


def test_the_mlp_is_two_seeded_layers():
    one, other = (build_embedder("conv4", 8, head="mlp", seed=3) for _ in range(2))
    shapes = [tuple(variable.shape) for variable in head_variables(one)]
    assert shapes == [(64, 64), (64,), (64, 8), (8,)]
    for left, right in zip(head_variables(one), head_variables(other)):
        np.testing.assert_array_equal(left, right)


class TestHeadVariables:
    def test_kernel_and_bias(self, embedder):
        kernel, bias = head_variables(embedder)
        assert (kernel.shape, bias.shape) == ((64, 8), (8,))
        assert kernel is embedder.get_layer("head").kernel

    def test_nested_layer_by_name_or_itself(self, embedder):
        convolution = embedder.get_layer("conv4").get_layer("conv_2")
        for head_layer in ("conv_2", convolution):
            assert head_variables(embedder, head_layer)[0] is convolution.kernel

    def test_unknown_name_lists_the_layers_with_weights(self, embedder):
        with pytest.raises(
            ValueError, match=r"`head_layer` must name one layer.*'top', which names 0.*\(conv4, head\)"
        ):
            head_variables(embedder, "top")

    def test_a_name_that_two_layers_have(self):
        inner = tf.keras.Sequential([tf.keras.layers.Dense(2, name="head")])
        model = tf.keras.Sequential([inner, tf.keras.layers.Dense(2, name="head")])
        model.build((None, 3))
        with pytest.raises(ValueError, match="'head', which names 2"):
            head_variables(model)

    def test_layer_without_variables(self, embedder):
        with pytest.raises(ValueError, match="`head_layer` must have trainable variables, got layer 'pool'"):
            head_variables(embedder, "pool")
