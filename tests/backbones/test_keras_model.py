"""Keras models in files as backbones: they train on from their weights, or are refused with the cause."""

import re

import numpy as np
import pytest
import tensorflow as tf

import profs_tf as profs
from profs_tf import backbones

pytestmark = pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file:UserWarning")


def network(shape=(None, None, 3), pooled=False):
    images = tf.keras.Input(shape)
    x = tf.keras.layers.Rescaling(1 / 255)(images)
    x = tf.keras.layers.Conv2D(6, 3, strides=4, activation="relu")(x)
    x = tf.keras.layers.BatchNormalization()(x)
    return tf.keras.Model(images, tf.keras.layers.GlobalAveragePooling2D()(x) if pooled else x)


def images(side=16):
    return np.random.default_rng(0).integers(0, 256, (4, side, side, 3)).astype(np.float32)


@pytest.mark.parametrize("file", ["net.keras", "net.h5", "net"])
@pytest.mark.parametrize("pooled", [False, True])
def test_an_embedder_on_a_saved_model(tmp_path, file, pooled):
    model = network(pooled=pooled)
    model.save(tmp_path / file)
    embedder = profs.build_embedder(str(tmp_path / file), 5, input_size=16, seed=0)
    features = model(images()).numpy() if pooled else model(images()).numpy().mean((1, 2))
    want = features @ embedder.get_layer("head").kernel + embedder.get_layer("head").bias
    want /= np.linalg.norm(want, axis=1, keepdims=True)
    np.testing.assert_allclose(embedder(images()), want, atol=1e-5)


@pytest.mark.parametrize("file", ["net.keras", "net"])
def test_it_is_fine_tuned(tmp_path, file):
    tf.keras.utils.set_random_seed(0)
    network().save(tmp_path / file)
    embedder = profs.build_embedder(str(tmp_path / file), 5, input_size=16, seed=0)
    assert len(embedder.trainable_variables) == 4 + 2
    before = [variable.numpy() for variable in embedder.trainable_variables]
    model = profs.ProfsModel(embedder, proximal_weight=0.0)
    optimizer = profs.head_adam(embedder, 1e-2)
    model.compile(optimizer=optimizer, loss=profs.losses.MarginLoss(), run_eagerly=file == "net.keras")
    history = model.fit(images(), np.array([0, 0, 1, 1]), epochs=1, verbose=0).history
    assert history["loss"][0] > 0
    changed = [np.any(left != right) for left, right in zip(before, embedder.trainable_variables)]
    assert all(changed)


def test_a_saved_model_in_a_file_of_this_package(tmp_path):
    """What the package exports is a Keras model too; its pooled features are a backbone."""
    embedder = profs.build_embedder("conv4", 5, seed=0)
    pooled = tf.keras.Model(embedder.input, embedder.get_layer("pool").output)
    pooled.save(tmp_path / "pooled.keras")
    again = profs.build_embedder(str(tmp_path / "pooled.keras"), 7, seed=0)
    assert again(images(32)).shape == (4, 7)


def refused(path, message, shape=(None, None, 3), **options):
    with pytest.raises(ValueError, match=message) as caught:
        backbones.get(str(path))(shape, **options)
    assert re.match("`(backbone|pretrained|batch_norm_momentum)` must ", str(caught.value))


def test_models_that_take_no_such_images(tmp_path):
    path = tmp_path / "net.keras"
    network((16, 16, 3)).save(path)
    assert backbones.get(str(path))((16, 16, 3)).output_shape == (None, 4, 4, 6)
    refused(path, r"take images of shape \(32, 32, 3\), got .* \[\(None, 16, 16, 3\)\]", (32, 32, 3))
    network((None, None, 1)).save(path)
    refused(path, r"take images of shape .* \[\(None, None, None, 1\)\]")
    tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(3,))]).save(path)
    refused(path, r"take images of shape .* \[\(None, 3\)\]")


def test_models_that_return_no_features(tmp_path):
    model = network()
    tf.keras.Model(model.input, [model.output, model.output]).save(tmp_path / "two.keras")
    refused(tmp_path / "two.keras", r"must return a feature map .* with outputs \[.*\), \(.*\]")
    flat = tf.keras.layers.Reshape((-1, 6))(model.output)
    tf.keras.Model(model.input, flat).save(tmp_path / "flat.keras")
    refused(tmp_path / "flat.keras", r"must return a feature map .*\(None, None, 6\)")


def test_a_frozen_model(tmp_path):
    model = network()
    model.trainable = False
    model.save(tmp_path / "net.keras")
    refused(tmp_path / "net.keras", "must have trainable weights.*model.trainable = True")


def test_a_saved_model_that_is_not_of_keras(tmp_path):
    class Doubles(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec((None, None, None, 3))])
        def __call__(self, x):
            return 2 * x

    tf.saved_model.save(Doubles(), str(tmp_path / "plain"))
    refused(tmp_path / "plain", "`backbone` must be a model that Keras saved|must be a file of a Keras model")


@pytest.mark.parametrize("file", ["net.keras", "net.h5", "net"])
def test_one_weight_that_is_not_finite(tmp_path, file):
    """A fused ReLU turns the NaN into a constant feature: no loss would show it."""
    model = network()
    kernel = model.layers[2].kernel
    kernel.assign(tf.tensor_scatter_nd_update(kernel, [[1, 1, 0, 2]], [np.nan]))
    model.save(tmp_path / file)
    name = kernel.name.split("/")[0]
    refused(
        tmp_path / file, rf"`backbone` must have finite weights, got '.*net.*: 1 of 162 in {name}/kernel:0\."
    )
    with pytest.raises(ValueError, match="`backbone` must have finite weights, got '.*net"):
        profs.build_embedder(str(tmp_path / file), 5)


@pytest.mark.parametrize("name", ["net.keras", "net.h5"])
def test_damaged_files(tmp_path, name):
    network().save(tmp_path / name)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content[: len(content) // 2])
    refused(tmp_path / name, "must be a file of a Keras model")


def test_files_of_weights_alone(tmp_path):
    network().save_weights(tmp_path / "net.h5")
    refused(tmp_path / "net.h5", "must be a file of a Keras model")


@pytest.mark.parametrize("option", [{"pretrained": "imagenet"}, {"batch_norm_momentum": 0.9}])
def test_options_it_cannot_take(tmp_path, option):
    network().save(tmp_path / "net.keras")
    refused(tmp_path / "net.keras", "must be None for the backbone .* has its own", **option)


@pytest.mark.parametrize("name", ["nothing.keras", "folder", "text.txt"])
def test_what_is_no_model_gets_the_list_of_names(tmp_path, name):
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.txt").write_text("x")
    refused(tmp_path / name, "must be one of bn_inception, .*, keras_cv:PRESET, the path of a Keras model")
