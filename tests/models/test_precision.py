"""Mixed precision and XLA: every loss and mining trains as in plain float32."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

import profs_tf as profs
from profs_tf.backbones.base import Backbone
from profs_tf.config import Config
from profs_tf.datasets.image_list import ImageList
from profs_tf.runs.checkpoint import RunCheckpoint
from profs_tf.runs.factory import build_model, in_precision, sampling_rules
from profs_tf.runs.loss import build_loss
from profs_tf.serving.saved_model import save_embedder

SIDE, DIM, CLASSES, STEPS = 16, 8, 8, 12
RANDOM = np.random.default_rng(0)
PATTERNS = np.repeat(RANDOM.integers(60, 196, (CLASSES, SIDE, SIDE, 3)), 4, axis=0)
PIXELS = (PATTERNS + RANDOM.integers(-40, 41, PATTERNS.shape)).astype(np.uint8)
DATA = ImageList.from_labels(PIXELS, np.repeat(np.arange(CLASSES), 4))
PLAIN = profs.Preprocessing(resize=SIDE, crop=SIDE, mirror=False)
LOSSES = {
    "contrastive": ("contrastive", {}),
    "triplet_hard": ("triplet", {"mining": "hard"}),
    "triplet_semi_hard": ("triplet", {"mining": "semi_hard"}),
    "margin_hard": ("margin", {"mining": "hard"}),
    "margin_distance_weighted": ("margin", {"mining": "distance_weighted"}),
    "lifted_structure": ("lifted_structure", {}),
    "n_pair": ("n_pair", {}),
    "angular": ("angular", {"angle": 36.0}),
    "multi_similarity": ("multi_similarity", {}),
    "soft_triple": ("soft_triple", {"centers_per_class": 2}),
    "proxy_nca": ("proxy_nca", {}),
    "proxy_anchor": ("proxy_anchor", {}),
    "norm_softmax": ("norm_softmax", {}),
    "cos_face": ("cos_face", {}),
    "arc_face": ("arc_face", {}),
    "sup_con": ("sup_con", {}),
}
# The others take minutes together.
SHORT = ("soft_triple",)
EVERY = [pytest.param(loss, marks=() if loss in SHORT else pytest.mark.slow) for loss in LOSSES]


def config_for(loss, **changes):
    name, options = LOSSES[loss]
    return Config(
        loss=name,
        loss_options=options,
        embedding_dim=DIM,
        batch_size=8,
        learning_rate=2e-3,
        head_multiplier=1.0,
        **changes,
    )


@pytest.fixture(autouse=True)
def small_backbone(monkeypatch):
    """A convolution in place of a network that takes seconds to compile."""

    def build(input_shape, pretrained, batch_norm_momentum, seed):
        images = tf.keras.Input(input_shape)
        kernel = tf.keras.initializers.HeNormal(seed=seed)
        x = tf.keras.layers.Rescaling(1 / 127.5, -1.0, dtype="float32")(images)
        x = tf.keras.layers.AveragePooling2D(4)(x)
        x = tf.keras.layers.Conv2D(16, 1, use_bias=False, kernel_initializer=kernel)(x)
        x = tf.keras.layers.ReLU()(tf.keras.layers.BatchNormalization(momentum=0.5)(x))
        return tf.keras.Model(images, x, name="small")

    monkeypatch.setattr("profs_tf.backbones.get", lambda name: Backbone("small", build))


def fit(model, config, steps=STEPS, sampler=None, callbacks=()):
    rules = sampling_rules(dataclasses.replace(config, steps_per_projection=4))
    # It chooses another class of samplers.
    options = {name: value for name, value in rules._asdict().items() if name != "ends_on_plateau"}
    sampler = sampler or profs.BatchSampler(DATA.labels, 8, 2, seed=3, **options)
    losses = []
    record = tf.keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: losses.append(logs["loss"])
    )
    model.fit(
        profs.train_pipeline(DATA, sampler, PLAIN),
        steps_per_epoch=steps,
        callbacks=[profs.ProfsCallback(sampler), record, *callbacks],
        verbose=0,
    )
    return np.array(losses)


def trained_losses(config):
    model = build_model(config, CLASSES)
    return model, fit(model, config)


@pytest.fixture(scope="module")
def plain_losses():
    return {}


def plain(loss, known):
    if loss not in known:
        known[loss] = trained_losses(config_for(loss))[1]
    return known[loss]


@pytest.mark.parametrize("loss", EVERY)
def test_jit_compiled_steps_are_the_same_steps(loss, plain_losses):
    model, got = trained_losses(config_for(loss, jit_compile=True))
    assert model.jit_compile
    # Draws that depend on the last bit of the embeddings are others.
    tolerance = {"rtol": 0.1} if loss == "margin_distance_weighted" else {"rtol": 1e-3, "atol": 1e-5}
    np.testing.assert_allclose(got, plain(loss, plain_losses), **tolerance)


@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("loss", EVERY)
def test_mixed_precision_trains_as_float32(precision, loss, plain_losses):
    model, got = trained_losses(config_for(loss, precision=precision))
    expected = plain(loss, plain_losses)
    assert model.embedder.get_layer("small").compute_dtype == precision[len("mixed_") :]
    assert all(variable.dtype == tf.float32 for variable in model.embedder.trainable_variables)
    assert model.embedder(PIXELS[:2]).dtype == tf.float32
    assert np.isfinite(got).all()
    # A bfloat16 has 8 bits: what a loss chooses may differ where distances nearly tie.
    np.testing.assert_allclose(got, expected, rtol=0.1, atol=0.02)
    assert tf.keras.mixed_precision.global_policy().name == "float32"


def test_loss_is_handed_float32_embeddings():
    config = config_for("margin_hard", precision="mixed_bfloat16")
    model = build_model(config, CLASSES)
    seen = []

    class Watching(profs.losses.MarginLoss):
        def __call__(self, y_true, y_pred, sample_weight=None):
            seen.append(y_pred.dtype)
            return super().__call__(y_true, y_pred, sample_weight)

    model.compile(tf.keras.optimizers.SGD(0.01), Watching())
    fit(model, config, steps=2)
    assert set(seen) == {tf.float32}


def test_exported_embedder_gives_float32(tmp_path):
    """In float16; test_embedder.py does the same in bfloat16."""
    model = build_model(config_for("margin_hard", precision="mixed_float16"), CLASSES)
    save_embedder(model.embedder, PLAIN, tmp_path / "embedder")
    signatures = tf.saved_model.load(str(tmp_path / "embedder")).signatures
    embeddings = signatures["uint8_images"](images=tf.constant(PIXELS[:3]))["embeddings"]
    assert embeddings.dtype == tf.float32
    np.testing.assert_allclose(embeddings, model.embedder(PIXELS[:3], training=False), atol=2e-2)


def test_a_step_whose_gradients_overflow_is_left_out_and_the_scale_halved():
    config = config_for("margin_hard", precision="mixed_float16")
    model = build_model(config, CLASSES)
    assert isinstance(model.optimizer, tf.keras.mixed_precision.LossScaleOptimizer)
    before = [variable.numpy() for variable in model.embedder.trainable_variables]
    scale = model.optimizer._loss_scale._current_loss_scale
    scale.assign(2.0**60)
    fit(model, config, steps=1)
    assert float(model.optimizer.loss_scale) == 2.0**59
    for variable, value in zip(model.embedder.trainable_variables, before):
        np.testing.assert_array_equal(variable.numpy(), value)


@pytest.mark.slow
def test_resuming_with_loss_scaling_is_exact(tmp_path):
    config = config_for("margin_hard", precision="mixed_float16")

    def make():
        model = build_model(config, CLASSES)
        # Doubles within the test: the count towards it must survive, too.
        optimizer = tf.keras.mixed_precision.LossScaleOptimizer(
            profs.head_adam(model.embedder, 2e-3), initial_scale=2.0**10, dynamic_growth_steps=5
        )
        model.compile(optimizer, build_loss(config, CLASSES))
        return model

    whole = make()
    fit(whole, config, steps=12)
    assert float(whole.optimizer.loss_scale) == 2.0**12
    first = make()
    fit(first, config, steps=7)
    RunCheckpoint(tmp_path, first, {}).save()
    second = make()
    assert RunCheckpoint(tmp_path, second, {}).restore()
    fit(second, config, steps=5)
    assert float(second.optimizer.loss_scale) == 2.0**12
    for one, other in zip(whole.embedder.variables, second.embedder.variables):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_mining_goes_with_precision_and_jit():
    config = config_for("n_pair", method="profs_hncm", precision="mixed_bfloat16", jit_compile=True)
    sampler = profs.MinedBatchSampler(DATA.labels, 8, 2, seed=3, steps_per_projection=4)
    model = build_model(config, CLASSES)
    losses = fit(model, config, sampler=sampler)
    assert np.isfinite(losses).all()
    assert model.representative_tap.embeddings.dtype == tf.float32


def test_precision_of_layers_ends_with_the_model():
    with pytest.raises(KeyError), in_precision("mixed_float16"):
        raise KeyError
    assert tf.keras.mixed_precision.global_policy().name == "float32"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"precision": "float16"}, "`precision` must be one of float32, mixed_bfloat16, mixed_float16"),
        (
            {"jit_compile": True, "distribute": "mirrored"},
            "`jit_compile` must be off with `distribute` mirrored",
        ),
        (
            {"sync_batch_norm": True, "precision": "mixed_bfloat16"},
            "`precision` must be float32 or mixed_float16",
        ),
        (
            {"cpu_replicas": 2},
            "`cpu_replicas` must be left out unless `distribute` is mirrored, got 2 with none",
        ),
        ({"cpu_replicas": 1, "distribute": "mirrored"}, "`cpu_replicas` must be >= 2, got 1"),
        (
            {"distribute": "horovod"},
            "`distribute` must be one of none, mirrored, multi_worker, got 'horovod'",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(Config(), **changes)
