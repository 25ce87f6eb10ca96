"""A ProfsModel in Keras's files: `.keras` goes round, other formats are refused with the cure."""

import copy

import numpy as np
import pytest
import tensorflow as tf

import profs_tf as profs
from tests.models.tiny import PIXELS, assert_same_state, fit, make_embedder, make_model, make_sampler

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


def state_by_layer(model):
    anchors = model.proximal.anchors_by_weight(model.embedder.weights)
    weights = {weight.name: weight.numpy() for weight in model.embedder.weights}
    return weights, {model.embedder.weights[place].name: anchor.numpy() for place, anchor in anchors.items()}


def freeze(model, *names):
    for layer in model.embedder.layers:
        layer.trainable = layer.name not in names
    return model


def test_anchors_stay_with_their_layers_when_others_are_frozen(tmp_path):
    model = make_model(run_eagerly=True)
    fit(model, make_sampler())
    weights, anchors = state_by_layer(freeze(model, "conv"))
    assert any(np.any(weights[name] != anchor) for name, anchor in anchors.items())
    model.save(str(tmp_path / "model.keras"))
    model.save_weights(str(tmp_path / "model.weights.h5"))
    fewer = freeze(profs.ProfsModel(make_embedder(), 0.1), "conv")
    fewer.compile(profs.head_adam(fewer.embedder, 0.01), profs.losses.MarginLoss())
    fewer.load_weights(str(tmp_path / "model.weights.h5"))
    for loaded in (fewer, tf.keras.models.load_model(str(tmp_path / "model.keras"))):
        got_weights, got_anchors = state_by_layer(loaded)
        assert len(got_anchors) == 4 < len(anchors)
        for expected, got in ((weights, got_weights), (anchors, got_anchors)):
            for name, value in got.items():
                np.testing.assert_array_equal(expected[name], value)


def test_files_without_the_anchor_of_a_layer_that_trains_are_refused(tmp_path):
    model = freeze(profs.ProfsModel(make_embedder()), "conv")
    model.compile("sgd", profs.losses.MarginLoss())
    model.save_weights(str(tmp_path / "model.weights.h5"))
    with pytest.raises(ValueError, match="`filepath` holds no anchor of conv/kernel"):
        make_model().load_weights(str(tmp_path / "model.weights.h5"))


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
