"""A ProfsModel in Keras's files: `.keras` goes round, other formats are refused with the cure."""

import copy

import numpy as np
import pytest
import tensorflow as tf

import profs_tf as profs
from profs_tf.models.saving import weights_in_order
from tests.models.tiny import (
    DIM,
    PIXELS,
    SIDE,
    assert_same_state,
    fit,
    make_embedder,
    make_model,
    make_sampler,
)

LOSSES = {
    "margin": lambda: profs.losses.MarginLoss(),
    "proxy_nca": lambda: profs.losses.ProxyNCALoss(6, 4),
    "memory": lambda: profs.losses.CrossBatchMemory(profs.losses.MarginLoss(), 4, size=10, start_step=1),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_saved_model_trains_on_as_the_original(loss, tmp_path):
    model = make_model(loss=LOSSES[loss](), run_eagerly=loss == "proxy_nca")
    fit(model, make_sampler())
    model.save(str(tmp_path / "model.keras"))
    loaded = tf.keras.models.load_model(str(tmp_path / "model.keras"))
    assert type(loaded) is profs.ProfsModel
    assert_same_state(model, loaded)
    for each in (model, loaded):
        # Step 4 is inside the projection that started at step 3.
        fit(each, make_sampler())
    assert_same_state(model, loaded)


def test_model_checkpoint_saves_whole_models(tmp_path):
    model = make_model()
    path = str(tmp_path / "model.keras")
    fit(model, make_sampler(), [None, tf.keras.callbacks.ModelCheckpoint(path)])
    assert_same_state(model, tf.keras.models.load_model(path))


@pytest.mark.parametrize("name", ["weights", "model.weights.h5"])
def test_saved_weights_train_on_as_the_original(name, tmp_path):
    model, fresh = make_model(run_eagerly=True), make_model(run_eagerly=True)
    fit(model, make_sampler())
    model.save_weights(str(tmp_path / name))
    fresh.load_weights(str(tmp_path / name))
    for each in (model, fresh):
        fit(each, make_sampler())
    assert_same_state(model, fresh)


def test_weights_with_anchors_are_refused_before_compile(tmp_path):
    make_model().save_weights(str(tmp_path / "model.weights.h5"))
    with pytest.raises(ValueError, match="Call `compile` before `load_weights`"):
        profs.ProfsModel(make_embedder()).load_weights(str(tmp_path / "model.weights.h5"))


def state_by_weight(model):
    """Name to weight, and to anchor where there is one."""
    weights = weights_in_order(model.embedder)
    anchors = model.proximal.anchors_by_place(weights)
    assert len({weight.name for weight in weights}) == len(weights) == len(model.embedder.weights)
    return (
        {weight.name: weight.numpy() for weight in weights},
        {weights[place].name: anchor.numpy() for place, anchor in anchors.items()},
    )


class Block(tf.keras.layers.Layer):
    """A layer made of layers, whose `weights` are in another order where one of them is frozen."""

    def __init__(self, **options):
        super().__init__(**options)
        self.parts = [
            tf.keras.layers.Conv2D(3, 1, name="one"),
            tf.keras.layers.BatchNormalization(name="norm"),
        ]
        self.parts.append(tf.keras.layers.Conv2D(3, 1, name="two"))

    def call(self, x, training=None):
        for part in self.parts:
            x = part(x)
        return x


def block_embedder():
    images = tf.keras.Input([SIDE, SIDE, 3])
    x = tf.keras.layers.GlobalAveragePooling2D()(Block(name="block")(images))
    return tf.keras.Model(images, tf.keras.layers.Dense(DIM, name="head")(x))


def freeze(embedder, *names):
    layers = [layer for layer in embedder.submodules if getattr(layer, "name", "") in names]
    assert len(layers) == len(names)
    for layer in layers:
        layer.trainable = False
    return embedder


def compiled(embedder):
    model = profs.ProfsModel(embedder, 0.1)
    model.compile(tf.keras.optimizers.Adam(0.01), profs.losses.ProxyNCALoss(6, 4), run_eagerly=True)
    return model


@pytest.mark.parametrize(("build", "frozen"), [(make_embedder, "conv"), (block_embedder, "norm")])
def test_anchors_stay_with_their_weights_when_others_are_frozen(build, frozen, tmp_path):
    model = compiled(build())
    fit(model, make_sampler())
    weights, anchors = state_by_weight(model)
    assert any(np.any(weights[name] != anchor) for name, anchor in anchors.items())
    freeze(model.embedder, frozen)
    model.save_weights(str(tmp_path / "model.weights.h5"))
    model.save(str(tmp_path / "model.keras"))
    fewer = compiled(freeze(build(), frozen))
    fewer.load_weights(str(tmp_path / "model.weights.h5"))
    loaded = [fewer]
    if build is make_embedder:
        # Keras does not keep what is frozen within a layer of one's own.
        loaded.append(tf.keras.models.load_model(str(tmp_path / "model.keras")))
    for each in loaded:
        got_weights, got_anchors = state_by_weight(each)
        assert len(got_anchors) == len(anchors) - 2
        for expected, got in ((weights, got_weights), (anchors, got_anchors)):
            for name, value in got.items():
                np.testing.assert_array_equal(expected[name], value)


@pytest.mark.parametrize("frozen", [["conv"], ["conv", "mid", "head"]])
def test_files_without_the_anchor_of_a_layer_that_trains_are_refused(frozen, tmp_path):
    compiled(freeze(make_embedder(), *frozen)).save_weights(str(tmp_path / "model.weights.h5"))
    with pytest.raises(ValueError, match="`filepath` must hold an anchor of conv/kernel"):
        compiled(make_embedder()).load_weights(str(tmp_path / "model.weights.h5"))


def test_files_of_a_larger_embedder_are_refused(tmp_path):
    images = tf.keras.Input([SIDE, SIDE, 3])
    small = tf.keras.Model(images, tf.keras.layers.Dense(DIM, name="head")(tf.keras.layers.Flatten()(images)))
    compiled(make_embedder()).save_weights(str(tmp_path / "model.weights.h5"))
    with pytest.raises(ValueError, match="`filepath` must be of this embedder and version"):
        compiled(small).load_weights(str(tmp_path / "model.weights.h5"))


def test_copies_have_the_configuration():
    schedule = tf.keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)
    model = make_model(schedule)
    for copied in (profs.ProfsModel.from_config(model.get_config()), tf.keras.models.clone_model(model)):
        assert copied.get_config()["proximal_weight"] == model.get_config()["proximal_weight"]
        assert [w.shape for w in copied.embedder.weights] == [w.shape for w in model.embedder.weights]
    np.testing.assert_array_equal(copy.deepcopy(model)(PIXELS), model(PIXELS))


@pytest.mark.parametrize("path", ["model.h5", "model", "model.tf"])
def test_other_formats_are_refused(path, tmp_path):
    model = make_model()
    for save in (model.save, model.export):
        with pytest.raises(ValueError, match=r"`filepath` must end in .keras .*save_embedder"):
            save(str(tmp_path / path))
    with pytest.raises(ValueError, match="`filepath` must end in .keras"):
        tf.saved_model.save(model, str(tmp_path / path))


def test_what_has_no_configuration_is_refused():
    class Subclassed(tf.keras.Model):
        def call(self, images):
            return tf.reduce_mean(tf.cast(images, tf.float32), [1, 2])

    embedder = Subclassed()
    embedder(PIXELS)
    with pytest.raises(ValueError, match="`embedder` must be a Functional or Sequential model to be saved"):
        profs.ProfsModel(embedder).get_config()
    with pytest.raises(ValueError, match="`proximal_weight` must be a number or a schedule of Keras"):
        profs.ProfsModel(make_embedder(), lambda step: 0.1).get_config()


@pytest.mark.parametrize("method", ["add_loss", "add_metric"])
def test_what_training_would_ignore_is_refused(method):
    with pytest.raises(ValueError, match=f"`{method}` has no effect on a ProfsModel"):
        getattr(make_model(), method)(tf.constant(1.0))
