"""ResNet-50 against ``tf.keras.applications``, its own preprocessing and its own weight files."""

from urllib.error import URLError

import numpy as np
import pytest
import tensorflow as tf

from profs_tf.backbones.resnet50 import resnet50
from profs_tf.backbones.weights.archive import save_archive

# The package that holds Keras 2: keras, or tf_keras beside Keras 3.
KERAS = tf.keras.Model.__module__.split(".")[0]


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Keras's network with random weights and statistics, and the path of its weights."""
    network = tf.keras.applications.ResNet50(include_top=False, weights=None)
    rng = np.random.default_rng(0)
    for layer in network.layers:
        if isinstance(layer, tf.keras.layers.BatchNormalization):
            size = layer.gamma.shape
            layer.set_weights(
                [
                    rng.uniform(0.3, 0.7, size),
                    rng.normal(0, 0.1, size),
                    rng.normal(0, 0.1, size),
                    rng.uniform(0.5, 2, size),
                ]
            )
    path = str(tmp_path_factory.mktemp("resnet50") / "notop.h5")
    network.save_weights(path)
    return network, path


@pytest.fixture(scope="module")
def loaded(published):
    return resnet50(pretrained=published[1])


@pytest.mark.parametrize("shape", [(64, 64), (75, 50)])
def test_rgb_in_gives_what_keras_gives_after_its_preprocessing(published, loaded, shape):
    images = np.random.default_rng(1).integers(0, 256, (2, *shape, 3)).astype("f")
    want = published[0](tf.keras.applications.resnet50.preprocess_input(images.copy()))
    assert np.std(want) > 0.01
    np.testing.assert_allclose(loaded(images), want, atol=1e-5)


def test_converted_weights_are_the_same(published, loaded, tmp_path):
    path = str(tmp_path / "converted.h5")
    save_archive(loaded, path, [published[1]])
    for left, right in zip(resnet50(pretrained=path).get_weights(), loaded.get_weights()):
        np.testing.assert_array_equal(left, right)


def test_parameter_counts(loaded):
    assert sum(np.prod(variable.shape) for variable in loaded.trainable_variables) == 23_534_592
    assert sum(np.prod(variable.shape) for variable in loaded.non_trainable_variables) == 53_120


def test_momentum_of_the_statistics(loaded):
    def momenta(network):
        norms = [layer for layer in network.layers if isinstance(layer, tf.keras.layers.BatchNormalization)]
        return {layer.momentum for layer in norms}

    assert momenta(loaded) == {0.99}


@pytest.fixture
def stem_alone(monkeypatch):
    """Keras's network without its blocks, for what goes wrong after a second of building them."""
    monkeypatch.setattr(f"{KERAS}.src.applications.resnet.stack1", lambda x, *options, **named: x)


@pytest.mark.usefixtures("stem_alone")
def test_weights_of_another_network_are_refused(tmp_path):
    path = str(tmp_path / "other.h5")
    tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(3,))]).save_weights(path)
    with pytest.raises(
        ValueError, match=r"`pretrained` must hold the weights of tf.keras.applications.ResNet50.*other"
    ):
        resnet50(pretrained=path)


@pytest.mark.parametrize("pretrained", ["no such file", "."])
def test_what_is_no_hdf5_file_is_refused(pretrained):
    with pytest.raises(ValueError, match=r'`pretrained` must be "imagenet" or the path of an HDF5 file'):
        resnet50(pretrained=pretrained)


def test_a_truncated_file_is_refused(published, tmp_path):
    path = tmp_path / "truncated.h5"
    with open(published[1], "rb") as file:
        path.write_bytes(file.read(1_000_000))
    with pytest.raises(ValueError, match=r"`pretrained` must"):
        resnet50(pretrained=str(path))


def test_the_smallest_image(loaded):
    assert loaded(np.ones((1, resnet50.min_size, resnet50.min_size, 3), "f")).shape == (1, 1, 1, 2048)


@pytest.mark.usefixtures("stem_alone")
def test_without_a_network_one_line_says_where_the_file_is(monkeypatch, tmp_path):
    """Keras raises Exception itself, from the error of the socket."""

    def unreachable(*args, **kwargs):
        raise URLError(OSError("Name or service not known"))

    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.setattr(f"{KERAS}.src.utils.data_utils.urlretrieve", unreachable)
    monkeypatch.setattr("os.path.expanduser", lambda path: str(tmp_path / path.lstrip("~/")))
    with pytest.raises(ValueError, match="`pretrained` must be a file where there is no network") as caught:
        resnet50(pretrained="imagenet")
    text = str(caught.value)
    assert "\n" not in text
    assert "got 'imagenet': Name or service not known. resnet50 takes" in text
    assert text.count("https://storage.googleapis.com/") == 1
    assert text.endswith(f"takes {resnet50.published}: download it and pass --pretrained=FILE.")
