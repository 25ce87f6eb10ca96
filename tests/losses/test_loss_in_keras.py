"""The losses in a stock Keras model: compile, fit, and what the loss itself owns."""

import numpy as np
import pytest
import tensorflow as tf
from loss_cases import DIMENSIONS, NUM_CLASSES, build, every_loss, unit_rows

from profs_tf import losses

SIZE = 20  # in batches of 8: the last one is smaller
LABELS = np.tile(np.arange(NUM_CLASSES // 2), 5)
IMAGES = unit_rows(np.random.default_rng(0), SIZE)
QUERIES = np.tile([1.0, 0.0], SIZE // 2)
# Near one another: some hinges of the margin loss are active, and not in balance.
CROWDED = 0.3 * IMAGES + 0.5
OWNING = {
    "margin": lambda: losses.MarginLoss(),
    "margin_per_class": lambda: losses.MarginLoss(boundary_per_class=True, num_classes=NUM_CLASSES),
    "soft_triple": lambda: losses.SoftTripleLoss(NUM_CLASSES, DIMENSIONS),
    "proxy_nca": lambda: losses.ProxyNCALoss(NUM_CLASSES, DIMENSIONS),
}

every_owning_loss = pytest.mark.parametrize("name", list(OWNING))


def identity_model(policy="float32"):
    """Embeds by one linear layer, the identity at first."""
    inputs = tf.keras.Input([DIMENSIONS])
    layer = tf.keras.layers.Dense(
        DIMENSIONS,
        use_bias=False,
        kernel_initializer="identity",
        dtype=tf.keras.mixed_precision.Policy(policy),
    )
    return tf.keras.Model(inputs, layer(inputs))


@every_loss
@pytest.mark.parametrize("weighted", [False, True])
def test_fit_reports_the_loss_unchanged(name, weighted):
    """The batches' values, weighted by their images: no scaling by their size or their query masks."""
    loss, model = build(name).loss, identity_model()
    arrays = (IMAGES, LABELS, QUERIES) if weighted else (IMAGES, LABELS)
    dataset = tf.data.Dataset.from_tensor_slices(arrays).batch(8)
    model.compile(tf.keras.optimizers.SGD(0.0), loss=loss, run_eagerly=True)
    reported = model.fit(dataset, verbose=0).history["loss"][0]
    batches = [slice(0, 8), slice(8, 16), slice(16, 20)]
    values = [loss(LABELS[b], IMAGES[b], QUERIES[b] if weighted else None) for b in batches]
    np.testing.assert_allclose(reported, np.average(values, weights=[8, 8, 4]), rtol=1e-5)
    np.testing.assert_allclose(model.evaluate(dataset, verbose=0), reported, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "float32"])
@pytest.mark.parametrize("column", [False, True])
def test_fit_with_labels_of_any_kind(dtype, column):
    labels = LABELS.astype(dtype)
    labels = labels[:, np.newaxis] if column else labels
    model, loss = identity_model(), losses.TripletLoss()
    model.compile(tf.keras.optimizers.SGD(0.0), loss=loss)
    # A generator of unknown shapes, as user code often has.
    dataset = tf.data.Dataset.from_generator(
        lambda: iter([(IMAGES, labels, QUERIES)]),
        output_types=(tf.float32, dtype, tf.float32),
        output_shapes=([None, DIMENSIONS], [None, 1] if column else [None], [None]),
    )
    reported = model.fit(dataset, verbose=0).history["loss"][0]
    np.testing.assert_allclose(reported, loss(LABELS, IMAGES, QUERIES), rtol=1e-5)


def test_fit_refuses_one_hot_labels():
    model = identity_model()
    model.compile("sgd", loss=losses.ContrastiveLoss())
    with pytest.raises(ValueError, match="`y_true` must have shape .*tf.argmax"):
        model.fit(IMAGES, np.eye(NUM_CLASSES)[LABELS], verbose=0)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_fit_in_mixed_precision(policy):
    loss = losses.MarginLoss()
    model = identity_model(policy)
    optimizer = tf.keras.optimizers.SGD(0.1)
    if policy == "mixed_float16":
        optimizer = tf.keras.mixed_precision.LossScaleOptimizer(optimizer)
    model.compile(optimizer, loss=loss)
    before = model.get_weights()[0]
    half = tf.cast(IMAGES, policy[len("mixed_") :])
    expected = float(loss(LABELS, half, QUERIES))
    reported = model.fit(IMAGES, LABELS, sample_weight=QUERIES, batch_size=SIZE, verbose=0).history["loss"][0]
    np.testing.assert_allclose(reported, expected, rtol=1e-3)
    after = model.get_weights()[0]
    assert np.all(np.isfinite(after))
    assert np.any(after != before)


def test_float_labels_that_keras_rounds_are_refused():
    """Keras casts float labels to the output's dtype: in bfloat16 classes 256 and 257 are one."""
    model = identity_model("mixed_bfloat16")
    model.compile("sgd", loss=losses.TripletLoss())
    with pytest.raises(tf.errors.InvalidArgumentError, match="Pass integer labels"):
        model.fit(IMAGES, LABELS.astype(np.float32) + 255, verbose=0)
    model.fit(IMAGES, LABELS + 255, verbose=0)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_training_lowers_the_loss(jit_compile):
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(4), 8)
    x = (np.eye(4, DIMENSIONS)[y] + 0.8 * rng.normal(size=[32, DIMENSIONS])).astype(np.float32)
    model = identity_model()
    model.compile(tf.keras.optimizers.Adam(0.05), loss=losses.MultiSimilarityLoss(), jit_compile=jit_compile)
    values = model.fit(x, y, batch_size=32, epochs=15, verbose=0).history["loss"]
    assert values[-1] < 0.8 * values[0]


@every_owning_loss
def test_custom_step_trains_what_the_loss_owns(name):
    loss = OWNING[name]()
    (variable,) = loss.trainable_variables
    before = variable.numpy()
    optimizer = tf.keras.optimizers.Adam(loss.variable_learning_rate)
    for _ in range(3):
        with tf.GradientTape() as tape:
            value = loss(LABELS, CROWDED, QUERIES)
        gradients = tape.gradient(value, loss.trainable_variables)
        optimizer.apply_gradients(zip(gradients, loss.trainable_variables))
    changed = variable.numpy() != before
    if name == "margin_per_class":
        np.testing.assert_array_equal(changed, np.isin(np.arange(NUM_CLASSES), LABELS[QUERIES > 0]))
    assert np.any(changed)
    assert loss(LABELS, CROWDED, QUERIES) < value


def subclassed_model():
    class Identity(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.layer = tf.keras.layers.Dense(DIMENSIONS, use_bias=False, kernel_initializer="identity")

        def call(self, inputs):
            return self.layer(inputs)

    return Identity()


@every_owning_loss
@pytest.mark.parametrize("build_model", [identity_model, subclassed_model])
def test_keras_trains_what_the_loss_owns(name, build_model):
    loss, model = OWNING[name](), build_model()
    model.compile(tf.keras.optimizers.Adam(0.01), loss=loss)
    (variable,) = loss.trainable_variables
    before = variable.numpy()
    model.fit(CROWDED, LABELS, sample_weight=QUERIES, verbose=0)
    assert np.any(variable.numpy() != before)
    assert any(variable is other for other in model.trainable_variables)


def test_sequential_does_not_train_what_the_loss_owns():
    """As the documentation warns, with the cure that it names."""
    loss = OWNING["proxy_nca"]()
    before = loss.proxies.numpy()
    sequential = tf.keras.Sequential([tf.keras.Input([DIMENSIONS]), tf.keras.layers.Dense(DIMENSIONS)])
    for model, is_trained in (
        (sequential, False),
        (tf.keras.Model(sequential.inputs, sequential.outputs), True),
    ):
        model.compile(tf.keras.optimizers.Adam(0.01), loss=loss)
        model.fit(IMAGES, LABELS, verbose=0)
        assert np.any(loss.proxies.numpy() != before) == is_trained


@every_owning_loss
@pytest.mark.parametrize("file_format", ["checkpoint", "weights", "weights.h5", "keras"])
def test_what_the_loss_owns_is_saved_and_restored(name, file_format, tmp_path):
    loss, model = OWNING[name](), identity_model()
    model.compile(tf.keras.optimizers.Adam(0.01), loss=loss, run_eagerly=True)
    model.fit(CROWDED, LABELS, sample_weight=QUERIES, verbose=0)
    trained = loss.trainable_variables[0].numpy()
    fresh_loss, fresh = OWNING[name](), identity_model()
    fresh.compile(tf.keras.optimizers.Adam(0.01), loss=fresh_loss, run_eagerly=True)
    assert np.any(fresh_loss.trainable_variables[0].numpy() != trained)
    path = str(tmp_path / "model")
    if file_format == "checkpoint":
        path = tf.train.Checkpoint(model=model).save(path)
        tf.train.Checkpoint(model=fresh).restore(path).assert_existing_objects_matched()
    elif file_format == "keras":
        model.save(path + ".keras")
        fresh = tf.keras.models.load_model(path + ".keras")
        fresh_loss = fresh.loss
    else:
        path += ".weights.h5" if file_format == "weights.h5" else ""
        model.save_weights(path)
        fresh.load_weights(path)
    np.testing.assert_array_equal(fresh_loss.trainable_variables[0], trained)
    assert fresh_loss.get_config() == loss.get_config()
