"""The variables of a loss (boundary, centers, proxies) are trained, saved and restored."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from profs_tf import losses
from tests.losses.loss_cases import DIMENSIONS, NUM_CLASSES, WITH_PROXIES, identity_model, unit_rows

SIZE = 20
LABELS = np.tile(np.arange(NUM_CLASSES // 2), 5)
IMAGES = unit_rows(np.random.default_rng(0), SIZE)
QUERIES = np.tile([1.0, 0.0], SIZE // 2)
SIZES = {"num_classes": NUM_CLASSES, "embedding_dim": DIMENSIONS}
# Near one another: some hinges of the margin loss are active, and not in balance.
CROWDED = 0.3 * IMAGES + 0.5
OWNING = {
    "margin": lambda: losses.MarginLoss(),
    "margin_per_class": lambda: losses.MarginLoss(boundary_per_class=True, num_classes=NUM_CLASSES),
    "soft_triple": lambda: losses.SoftTripleLoss(NUM_CLASSES, DIMENSIONS),
    **{name: functools.partial(losses.get, name, **SIZES) for name in WITH_PROXIES},
}

every_owning_loss = pytest.mark.parametrize("name", list(OWNING))


@every_owning_loss
def test_custom_step_trains_the_variables_of_the_loss(name):
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
def test_keras_trains_the_variables_of_the_loss(name, build_model):
    loss, model = OWNING[name](), build_model()
    model.compile(tf.keras.optimizers.Adam(0.01), loss=loss, run_eagerly=name != "proxy_nca")
    (variable,) = loss.trainable_variables
    before = variable.numpy()
    model.fit(CROWDED, LABELS, sample_weight=QUERIES, verbose=0)
    assert np.any(variable.numpy() != before)
    assert any(variable is other for other in model.trainable_variables)


def test_sequential_does_not_train_the_variables_of_the_loss():
    """As the documentation warns, with the cure that it names."""
    loss = OWNING["proxy_nca"]()
    before = loss.proxies.numpy()
    sequential = tf.keras.Sequential([tf.keras.Input([DIMENSIONS]), tf.keras.layers.Dense(DIMENSIONS)])
    for model, is_trained in (
        (sequential, False),
        (tf.keras.Model(sequential.inputs, sequential.outputs), True),
    ):
        model.compile(tf.keras.optimizers.Adam(0.01), loss=loss, run_eagerly=True)
        model.fit(IMAGES, LABELS, verbose=0)
        assert np.any(loss.proxies.numpy() != before) == is_trained


@functools.cache
def trained_with(name):
    loss, model = OWNING[name](), identity_model()
    model.compile(tf.keras.optimizers.Adam(0.01), loss=loss, run_eagerly=True)
    model.fit(CROWDED, LABELS, sample_weight=QUERIES, verbose=0)
    return loss, model


@every_owning_loss
@pytest.mark.parametrize("file_format", ["checkpoint", "weights", "weights.h5", "keras"])
def test_variables_of_the_loss_are_saved_and_restored(name, file_format, tmp_path):
    loss, model = trained_with(name)
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


@every_owning_loss
def test_two_losses_of_one_seed_are_equal(name):
    (first,), (second,) = OWNING[name]().trainable_variables, OWNING[name]().trainable_variables
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("build", [losses.SoftTripleLoss, losses.ProxyNCALoss])
def test_seed_draws_unit_vectors(build):
    (one,) = build(50, 64, seed=1).trainable_variables
    (two,) = build(50, 64, seed=2).trainable_variables
    assert np.all(one.numpy() != two.numpy())
    np.testing.assert_allclose(np.linalg.norm(one, axis=-1), 1.0, rtol=1e-5)
    assert abs(np.mean(one)) < 4 / np.sqrt(tf.size(one)) / np.sqrt(64)


@pytest.mark.parametrize(
    ("name", "rate"), [("margin", 5e-4), *((name, 1e-2) for name in ("soft_triple", *WITH_PROXIES))]
)
def test_learning_rate_of_the_variables(name, rate):
    assert OWNING[name]().variable_learning_rate == rate
    assert losses.options(name)["learning_rate"] == (float, rate, ())
    assert losses.MarginLoss(learning_rate=0.1).variable_learning_rate == 0.1
    assert losses.TripletLoss().variable_learning_rate is None
    assert losses.TripletLoss().trainable_variables == ()


def test_names_of_the_variables():
    names = {
        name: [variable.name for variable in build().trainable_variables] for name, build in OWNING.items()
    }
    assert names == {
        "margin": ["boundary:0"],
        "margin_per_class": ["boundary:0"],
        "soft_triple": ["centers:0"],
        **{name: ["proxies:0"] for name in WITH_PROXIES},
    }


def test_file_without_the_variable_is_refused():
    with pytest.raises(ValueError, match="The file holds no `boundary` of the loss margin_loss"):
        losses.MarginLoss().load_own_variables({})


@pytest.mark.parametrize("build", [losses.SoftTripleLoss, losses.ProxyNCALoss])
def test_label_without_a_vector_is_refused(build):
    loss, E = build(3, DIMENSIONS), tf.constant(IMAGES[:2])
    graph = tf.function(loss, autograph=False)
    xla = tf.function(loss, autograph=False, jit_compile=True)
    message = r"whole numbers 0 \.\.\. 2 .* `num_classes` is 3"
    for bad in (3, -1, 0.5):
        for run, labels in ((loss, [0, bad]), (graph, tf.constant([0, bad], tf.float32))):
            with pytest.raises(tf.errors.InvalidArgumentError, match=message):
                run(labels, E)
        assert np.isnan(xla(tf.constant([0, bad], tf.float32), E))


class TwoScales(losses.MetricLoss):
    """A loss of a user: an option without a type, and two variables without names."""

    def __init__(self, alpha=1.0, name=None):
        super().__init__(name=name)
        self.alpha = alpha
        self.scales = [tf.Variable(alpha), tf.Variable(2.0 * alpha)]

    def _batch_loss(self, batch):
        return self.scales[0] * self.scales[1] * tf.reduce_mean(batch.embeddings)


def test_variables_without_names_are_told_apart():
    loss, other = TwoScales(alpha=3.0), TwoScales()
    assert loss.get_config()["alpha"] == 3.0
    assert loss.options()["alpha"].type is float
    stored = {}
    loss.save_own_variables(stored)
    assert len(stored) == 2
    other.load_own_variables(stored)
    assert [float(scale) for scale in other.scales] == [3.0, 6.0]
