"""Arguments of `compile` and wrappers of optimizers: honored or refused."""

import numpy as np
import pytest
import tensorflow as tf

import profs_tf as profs
from tests.models.tiny import fit, make_embedder, make_model, make_sampler


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps_per_execution": "auto"}, "`steps_per_execution` must be a number, got 'auto'"),
        ({"pss_evaluation_shards": 2}, "`pss_evaluation_shards` must be 0, got 2"),
    ],
)
def test_arguments_of_compile_without_effect_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        make_model(**options)


def test_max_pooling_has_no_deterministic_compiled_gradient(monkeypatch):
    images = tf.keras.Input([8, 8, 3])
    x = tf.keras.layers.MaxPooling2D(name="pool_1")(images)
    model = profs.ProfsModel(tf.keras.Model(images, tf.keras.layers.GlobalAveragePooling2D()(x)))
    model.compile("sgd", profs.losses.ContrastiveLoss(), jit_compile=True)
    monkeypatch.setattr("profs_tf.models.keras_contract.is_op_determinism_enabled", lambda: True)
    with pytest.raises(ValueError, match=r"`jit_compile` must be off .* max pooling \(pool_1\)"):
        model.compile("sgd", profs.losses.ContrastiveLoss(), jit_compile=True)


def wrapped(name, embedder, loss):
    legacy = tf.keras.optimizers.legacy.SGD(0.1)
    if name == "none":
        return legacy
    if name == "loss_scale":
        return tf.keras.mixed_precision.LossScaleOptimizer(profs.head_adam(embedder, 0.01))
    if name == "ema":
        return profs.head_adam(embedder, 0.01, use_ema=True, ema_momentum=0.5)
    tfa = pytest.importorskip("tensorflow_addons")
    if name == "multi":
        return tfa.optimizers.MultiOptimizer([(legacy, embedder.layers)])
    return {
        "moving_average": tfa.optimizers.MovingAverage,
        "lookahead": tfa.optimizers.Lookahead,
        "swa": lambda inner: tfa.optimizers.SWA(inner, 0, 2),
    }[name](legacy)


@pytest.mark.parametrize(
    ("name", "run_eagerly"),
    [
        ("loss_scale", False),
        ("ema", True),
        ("moving_average", False),
        ("lookahead", True),
        ("swa", True),
        ("multi", True),
    ],
)
def test_wrapped_optimizers_train_as_in_a_stock_model(name, run_eagerly):
    """Without a penalty every step is that of Keras with the same wrapper."""
    results = []
    for stock in (True, False):
        embedder, loss = make_embedder(), profs.losses.ContrastiveLoss()
        model = embedder if stock else profs.ProfsModel(embedder, proximal_weight=0.0)
        model.compile(wrapped(name, embedder, loss), loss, run_eagerly=run_eagerly)
        fit(model, make_sampler())
        results.append(embedder.get_weights())
    for expected, got in zip(*results):
        np.testing.assert_allclose(got, expected, atol=1e-6)


def test_optimizers_that_leave_out_a_variable_are_refused():
    embedder, loss = make_embedder(), profs.losses.MarginLoss()
    with pytest.raises(ValueError, match="`optimizer` must update every trainable variable, got a Multi"):
        profs.ProfsModel(embedder).compile(wrapped("multi", embedder, loss), loss)


@pytest.mark.parametrize("kind", ["lookup", "vectorization"])
def test_embedders_with_tables_train_and_are_saved(kind, tmp_path):
    texts = tf.keras.Input([], dtype=tf.string)
    words = ["a", "b", "c", "d"]
    if kind == "lookup":
        layer = tf.keras.layers.StringLookup()
        layer.adapt(words)
        tokens = layer(texts)[:, tf.newaxis]
    else:
        layer = tf.keras.layers.TextVectorization(output_sequence_length=2)
        layer.adapt(words)
        tokens = layer(texts)
    x = tf.keras.layers.GlobalAveragePooling1D()(tf.keras.layers.Embedding(6, 4, name="table")(tokens))
    embedder = tf.keras.Model(texts, tf.keras.layers.Dense(3, name="head")(x))
    model = profs.ProfsModel(embedder, proximal_weight=0.1)
    model.compile(profs.head_adam(embedder, 0.01), profs.losses.ContrastiveLoss())
    before = embedder.get_layer("table").get_weights()[0]
    model.proximal.swap(0)
    for _ in range(2):
        model.train_on_batch(tf.constant(["a", "b", "c", "d"]), tf.constant([0, 0, 1, 1]))
    trained = embedder.get_layer("table").get_weights()[0]
    assert (trained != before).any()
    model.save_weights(str(tmp_path / "model.weights.h5"))
    embedder.get_layer("table").set_weights([before])
    model.load_weights(str(tmp_path / "model.weights.h5"))
    np.testing.assert_array_equal(embedder.get_layer("table").get_weights()[0], trained)
