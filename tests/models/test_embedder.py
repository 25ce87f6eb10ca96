"""What an embedder computes, what it is made of, and its seed."""

import numpy as np
import pytest
import tensorflow as tf

from profs_tf.models.embedder import build_embedder
from profs_tf.models.head import head_variables
from tests.models.small_embedders import random_images, small


class TestOutput:
    def test_layers(self, embedder):
        assert [layer.name for layer in embedder.layers] == ["images", "conv4", "pool", "head", "normalize"]
        assert embedder.output_shape == (None, 8)

    @pytest.mark.parametrize("size", [16, 33, 48])
    def test_any_size_of_image(self, embedder, size):
        assert embedder(random_images(size)).shape == (4, 8)

    def test_fixed_size_of_image(self):
        assert small(input_size=32).input_shape == (None, 32, 32, 3)
        with pytest.raises(ValueError, match="incompatible with the layer"):
            small(input_size=32)(random_images(16))

    def test_embeddings_are_the_normalized_linear_map_of_the_pooled_features(self, embedder):
        images = random_images()
        features = embedder.get_layer("conv4")(images.astype("f")).numpy().mean((1, 2))
        kernel, bias = embedder.get_layer("head").get_weights()
        linear = features @ kernel + bias
        want = linear / np.linalg.norm(linear, axis=1, keepdims=True)
        np.testing.assert_allclose(embedder(images), want, rtol=1e-4, atol=1e-6)

    def test_without_normalization_they_are_the_linear_map(self, embedder):
        plain = small(normalize=False, seed=0)
        assert plain.layers[-1].name == "head"
        images = random_images()
        linear = plain(images).numpy()
        norms = np.linalg.norm(linear, axis=1, keepdims=True)
        assert np.all(np.abs(norms - 1) > 1e-3)
        np.testing.assert_allclose(embedder(images), linear / norms, rtol=1e-5, atol=1e-6)

    def test_default_is_the_network_of_the_paper(self):
        model = build_embedder()
        assert [layer.name for layer in model.layers] == [
            "images",
            "inception_v1",
            "pool",
            "head",
            "normalize",
        ]
        assert model.output_shape == (None, 512)
        assert sum(np.prod(v.shape) for v in model.trainable_variables) == 5_592_624 + 1024 * 512 + 512

    @pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, np.float16, np.float64])
    def test_integer_and_float_images_give_the_same_embeddings(self, embedder, dtype):
        want = embedder(random_images(dtype=np.float32))
        images = random_images(dtype=dtype)
        np.testing.assert_array_equal(embedder(images), want)
        np.testing.assert_array_equal(embedder(tf.constant(images)), want)
        np.testing.assert_allclose(embedder.predict(images, verbose=0), want, atol=1e-6)

    @pytest.mark.parametrize("mixed_policy", ["mixed_bfloat16", "mixed_float16"], indirect=True)
    @pytest.mark.parametrize("normalize", [True, False])
    def test_float32_under_mixed_precision(self, mixed_policy, normalize):
        model = small(normalize=normalize, seed=0)
        assert model.get_layer("conv4").output.dtype == mixed_policy.removeprefix("mixed_")
        got = model(random_images())
        assert got.dtype == tf.float32
        rounded = tf.cast(tf.cast(got, model.get_layer("conv4").output.dtype), tf.float32)
        assert np.any(got != rounded), "the embeddings passed through half precision"
        assert {variable.dtype for variable in model.variables} == {tf.float32}

    @pytest.mark.parametrize("mixed_policy", ["mixed_bfloat16"], indirect=True)
    def test_mixed_precision_is_near_full_precision(self, mixed_policy, embedder):
        np.testing.assert_allclose(small(seed=0)(random_images()), embedder(random_images()), atol=0.03)

    def test_a_black_image_in_a_white_batch(self, embedder):
        images = np.concatenate([np.zeros((1, 32, 32, 3)), np.full((3, 32, 32, 3), 255)]).astype(np.uint8)
        assert np.all(np.isfinite(embedder(images, training=True)))

    def test_all_zero_embedding_has_a_finite_gradient(self, embedder):
        model = small(seed=0)
        for variable in head_variables(model):
            variable.assign(tf.zeros_like(variable))
        with tf.GradientTape() as tape:
            embeddings = model(random_images(), training=True)
            loss = tf.reduce_sum(embeddings * np.arange(8, dtype="f"))
        np.testing.assert_array_equal(embeddings, np.zeros((4, 8)))
        for gradient in tape.gradient(loss, model.trainable_variables):
            assert np.all(np.isfinite(gradient))

    def test_every_weight_gets_a_gradient(self, embedder):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(embedder(random_images(), training=True) * np.arange(8, dtype="f"))
        for gradient in tape.gradient(loss, embedder.trainable_variables):
            assert np.any(gradient)


class TestSeed:
    def test_two_builds_in_one_process_are_equal_in_every_bit(self):
        first, second = (small(seed=3).get_weights() for _ in range(2))
        for left, right in zip(first, second):
            np.testing.assert_array_equal(left, right)

    def test_another_seed_and_no_seed_differ(self):
        drawn = [head_variables(small(seed=seed))[0].numpy() for seed in (3, 4, None, None)]
        for i in range(4):
            for j in range(i):
                assert np.all(drawn[i] != drawn[j])

    @pytest.mark.parametrize("seed", [-1, 0.5])
    def test_bad_seed_is_refused(self, seed):
        with pytest.raises(ValueError, match=rf"`seed` must be a whole number >= 0, got {seed}"):
            small(seed=seed)


def own_backbone(rank):
    images = tf.keras.Input((None, None, 3))
    x = tf.keras.layers.Conv2D(6, 3, activation="relu")(tf.keras.layers.Rescaling(1 / 255)(images))
    x = tf.keras.layers.BatchNormalization()(x)
    return tf.keras.Model(images, tf.keras.layers.GlobalMaxPooling2D()(x) if rank == 2 else x, name="mine")


class SubclassedBackbone(tf.keras.Model):
    def __init__(self):
        super().__init__(name="subclassed")
        self.conv = tf.keras.layers.Conv2D(6, 3)

    def call(self, images):
        return self.conv(images)


class TestOwnBackbone:
    def test_feature_map_is_pooled(self):
        backbone = own_backbone(rank=4)
        model = build_embedder(backbone, 8, normalize=False)
        images = random_images()
        pooled = backbone(images.astype("f")).numpy().mean((1, 2))
        kernel, bias = model.get_layer("head").get_weights()
        np.testing.assert_allclose(model(images), pooled @ kernel + bias, rtol=1e-4, atol=1e-5)

    def test_features_go_to_the_head_as_they_are(self):
        backbone = own_backbone(rank=2)
        model = build_embedder(backbone, 8, normalize=False)
        images = random_images()
        kernel, bias = model.get_layer("head").get_weights()
        np.testing.assert_allclose(
            model(images), backbone(images.astype("f")).numpy() @ kernel + bias, rtol=1e-4, atol=1e-5
        )

    def test_subclassed_model(self):
        assert build_embedder(SubclassedBackbone(), 8)(random_images()).shape == (4, 8)

    def test_weights_are_kept_under_a_seed(self):
        backbone = own_backbone(rank=4)
        before = backbone.get_weights()
        model = build_embedder(backbone, 8, seed=1)
        for left, right in zip(backbone.get_weights(), before):
            np.testing.assert_array_equal(left, right)
        again = build_embedder(own_backbone(rank=4), 8, seed=1)
        np.testing.assert_array_equal(head_variables(model)[0], head_variables(again)[0])

    @pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file:UserWarning")
    @pytest.mark.parametrize("lookup", ["StringLookup", "TextVectorization"])
    @pytest.mark.parametrize("freeze", ["none", "all"])
    def test_an_adapted_lookup_layer_whose_table_is_no_variable(self, lookup, freeze):
        """The table is among the model's weights, and has neither name nor dtype."""
        table = getattr(tf.keras.layers, lookup)()
        table.adapt(["dark", "bright"])
        images = tf.keras.Input((None, None, 3))
        x = tf.keras.layers.BatchNormalization()(tf.keras.layers.Conv2D(6, 3)(images))
        words = tf.keras.layers.Lambda(lambda x: tf.where(tf.reduce_mean(x, [1, 2]) > 100, "bright", "dark"))
        found = tf.cast(table(words(images)[:, :1]), tf.float32)[:, :1]
        features = tf.keras.layers.GlobalAveragePooling2D()(x) + found
        backbone = tf.keras.Model(images, features)
        assert not all(isinstance(weight, tf.Variable) for weight in backbone.weights)
        model = build_embedder(backbone, 8, freeze_batch_norm=freeze, sync_batch_norm=True, seed=0)
        assert model(random_images()).shape == (4, 8)
        assert len(model.trainable_variables) == (4 if freeze == "none" else 2) + 2

    def test_weights_that_are_not_finite_are_refused(self):
        backbone = own_backbone(rank=4)
        backbone.layers[2].bias.assign(np.full(6, np.nan))
        with pytest.raises(
            ValueError, match="`backbone` must have finite weights, got 'mine', .*: 6 of 6 in"
        ):
            build_embedder(backbone, 8)

    def test_other_outputs_are_refused(self):
        images = tf.keras.Input((16, 16, 3))
        backbone = tf.keras.Model(images, tf.keras.layers.Reshape((16, 48))(images))
        with pytest.raises(
            ValueError, match=r"`backbone` must return a feature map .* got .*\(None, 16, 48\)"
        ):
            build_embedder(backbone, 8, input_size=16)

    @pytest.mark.parametrize("options", [{"pretrained": "imagenet"}, {"batch_norm_momentum": 0.9}])
    def test_options_of_named_backbones_are_refused(self, options):
        argument = next(iter(options))
        with pytest.raises(ValueError, match=f"`{argument}` must be None when `backbone` is a Keras model"):
            build_embedder(own_backbone(rank=4), 8, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"backbone": "vgg"},
            r"`backbone` must be one of bn_inception, .*keras_cv:PRESET, .* or a Keras model, got 'vgg'",
        ),
        ({"embedding_dim": 0}, r"`embedding_dim` must be a whole number >= 1, got 0"),
        ({"embedding_dim": 1.5}, r"`embedding_dim` must be a whole number >= 1, got 1\.5"),
        ({"input_size": 32.0}, r"`input_size` must be a whole number >= 1, got 32\.0"),
        ({"input_size": 0}, r"`input_size` must be a whole number >= 1, got 0. None accepts any size"),
        ({"input_size": 8}, r"`input_shape` must be .* of at least 16 pixels for conv4, got \(8, 8, 3\)"),
        (
            {"freeze_batch_norm": "yes"},
            r"`freeze_batch_norm` must be one of auto, none, statistics, all, got 'yes'",
        ),
        ({"head": "deep"}, r"`head` must be one of linear, mlp, got 'deep'"),
        ({"train_layers": "last:0"}, r"`train_layers` must be all, head, or last:N .* N >= 1, got 'last:0'"),
        ({"train_layers": "last:99"}, r"`train_layers` must be last:N with N <= 8, .* conv4, got last:99"),
        ({"pretrained": "imagenet"}, r"`pretrained` must be None for conv4"),
    ],
)
def test_bad_arguments_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        build_embedder(**{"backbone": "conv4", **options})
