"""Objects and files of Keras 3 are refused with the cure; the current TensorFlow has it beside Keras 2."""

import re

import numpy as np
import pytest

import profs_tf as profs

keras = pytest.importorskip("keras", minversion="3", reason="this TensorFlow has no Keras 3")


@pytest.fixture(scope="module")
def network():
    return keras.Sequential(
        [keras.Input([32, 32, 3]), keras.layers.Conv2D(4, 3), keras.layers.BatchNormalization()]
    )


@pytest.fixture(scope="module")
def embedder():
    return profs.build_embedder("conv4", 4, input_size=32, seed=0)


@pytest.fixture(scope="module")
def model(embedder):
    model = profs.ProfsModel(embedder, proximal_weight=0.0)
    model.compile(profs.head_adam(embedder, 1e-3), profs.losses.ContrastiveLoss())
    return model


def refused(argument, kind):
    cure = "Make it with tf_keras, and copy weights by `new.set_weights(old.get_weights())`."
    message = f"`{argument}` must be made with Keras 2, got {kind} of Keras {keras.__version__}. {cure}"
    return pytest.raises(ValueError, match=f"^{re.escape(message)}$")


def test_models_are_refused(network):
    with refused("backbone", "Sequential"):
        profs.build_embedder(network, 4)
    with refused("embedder", "Sequential"):
        profs.ProfsModel(network)


def test_a_subclass_of_a_model_is_refused():
    class OwnModel(keras.Model):
        pass

    with refused("embedder", "OwnModel"):
        profs.ProfsModel(OwnModel())


def test_what_training_takes_is_refused(embedder, model):
    with refused("optimizer", "Adam"):
        profs.ProfsModel(embedder).compile(keras.optimizers.Adam(), profs.losses.ContrastiveLoss())
    with refused("learning_rate", "CosineDecay"):
        profs.head_adam(embedder, keras.optimizers.schedules.CosineDecay(1e-3, 10))
    with refused("callbacks", "EarlyStopping"):
        model.fit(
            np.zeros([4, 32, 32, 3]), np.array([0, 0, 1, 1]), callbacks=[keras.callbacks.EarlyStopping()]
        )
    with pytest.raises(ValueError, match="^`loss` must be a MetricLoss"):
        profs.ProfsModel(embedder).compile("adam", keras.losses.MeanSquaredError())


@pytest.mark.parametrize("name", ["network.keras", "network.h5"])
def test_a_file_as_backbone_is_refused(name, network, tmp_path):
    path = str(tmp_path / name)
    network.save(path)
    message = (
        f"`backbone` must be a model that Keras 2 saved, got {path!r}, saved by Keras {keras.__version__}."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)} Build its layers with tf_keras, copy"):
        profs.build_embedder(path, 4)


def test_the_cure_gives_the_same_features(network):
    import tf_keras

    layers = [tf_keras.Input([32, 32, 3]), tf_keras.layers.Conv2D(4, 3), tf_keras.layers.BatchNormalization()]
    same = tf_keras.Sequential(layers)
    same.set_weights(network.get_weights())
    images = np.random.default_rng(0).uniform(0, 255, [2, 32, 32, 3]).astype(np.float32)
    np.testing.assert_allclose(same(images), network(images), rtol=1e-5, atol=1e-4)
    assert profs.build_embedder(same, 4)(images).shape == (2, 4)


def test_an_exported_embedder_is_a_layer_of_keras_3(embedder, tmp_path):
    embedder.save(tmp_path / "embedder")
    layer = keras.layers.TFSMLayer(str(tmp_path / "embedder"), call_endpoint="serving_default")
    images = np.random.default_rng(0).uniform(0, 255, [2, 32, 32, 3]).astype(np.float32)
    (embeddings,) = layer(images).values()
    np.testing.assert_allclose(embeddings, embedder(images), atol=1e-5)


def test_a_loss_trains_a_model_of_keras_3(network):
    student = keras.Sequential([network, keras.layers.GlobalAveragePooling2D()])
    student.compile("adam", loss=profs.losses.ContrastiveLoss())
    images = np.random.default_rng(0).uniform(0, 1, [8, 32, 32, 3])
    history = student.fit(images, np.arange(8) // 2, epochs=2, verbose=0).history
    assert history["loss"][1] < history["loss"][0]
