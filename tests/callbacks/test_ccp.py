"""CCP as a callback of `fit`: replayed in NumPy, resumed, and what does not go together."""

import numpy as np
import tensorflow as tf

import profs_tf as profs
from profs_tf.inputs.features import FeatureList, feature_pipeline
from profs_tf.sampling.ccp.k_center import draw_pool
from tests.callbacks.ccp_replay import Replay

C, D, L, K, POOL, STEPS = 6, 3, 5, 2, 4, 3
OPTIONS = {"K": K, "patience": 2, "lambda": 0.5, "ordinary": 0.3, "margin": 0.7, "rate": 0.3}


def features_of(num_classes, per_class, seed):
    """Features of classes that overlap."""
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(num_classes), per_class)
    features = random.normal(size=[num_classes, C])[labels] + 1.2 * random.normal(size=[len(labels), C])
    names = tuple(map(str, range(num_classes)))
    return FeatureList(features.astype(np.float32)[None], labels.astype(np.int64), names)


TRAIN, VALIDATION = features_of(L, 7, 0), features_of(4, 6, 1)


def make_model(**options):
    kernel = tf.keras.initializers.GlorotNormal(seed=2)
    layers = [
        tf.keras.Input([C]),
        tf.keras.layers.Dense(D, use_bias=False, kernel_initializer=kernel, name="head"),
        tf.keras.layers.UnitNormalization(),
    ]
    model = profs.ProfsModel(tf.keras.Sequential(layers), OPTIONS["lambda"])
    pairs = profs.losses.ContrastiveLoss(margin=OPTIONS["margin"], mining="all")
    loss = profs.losses.ChanceConstrainedLoss(
        pairs, L, D, prototypes_per_class=K, ordinary_weight=OPTIONS["ordinary"]
    )
    model.compile(tf.keras.optimizers.SGD(OPTIONS["rate"]), loss, **options)
    return model


def make_sampler():
    return profs.BatchSampler(TRAIN.labels, 6, 2, seed=3, queries="all", steps_per_projection=1)


def make_callback(sampler, **options):
    options = {"pool_size": POOL, "patience": OPTIONS["patience"], "verbose": False, **options}
    return profs.CcpCallback(sampler, TRAIN, VALIDATION, **options)


def fit(model, callback, *callbacks, epochs, **options):
    return model.fit(
        feature_pipeline(TRAIN, callback.sampler),
        epochs=epochs,
        steps_per_epoch=STEPS,
        callbacks=[callback, *callbacks],
        verbose=0,
        **options,
    )


def test_replayed_in_float64_for_three_projections():
    model, sampler = make_model(), make_sampler()
    replay = Replay(
        model.embedder.trainable_variables[0].numpy().astype(np.float64),
        (TRAIN.features[0].astype(np.float64), TRAIN.labels),
        (VALIDATION.features[0].astype(np.float64), VALIDATION.labels),
        lambda step: sampler.batch(step).indices,
        lambda k: draw_pool(sampler.table, sampler.seed, k, POOL),
        **OPTIONS,
    )
    ends, penalties = [], []

    def compare(epoch, logs):
        for _ in range(STEPS):
            replay.take_step()
        penalties.append(float(logs["proximal_penalty"]))
        ended = replay.end_epoch()
        if ended:
            ends.append(epoch)
        assert int(model.proximal.projection_index.numpy()) == replay.k
        found = {
            "weights": (model.embedder.trainable_variables[0], replay.W),
            "anchors": (model.proximal.anchor_weights[0], replay.anchor),
            "prototypes": (model.metric_loss.prototypes, replay.prototypes),
        }
        for name, (value, expected) in found.items():
            np.testing.assert_allclose(value.numpy(), expected, atol=1e-6, rtol=0, err_msg=f"{name} {epoch}")

    fit(model, make_callback(sampler), tf.keras.callbacks.LambdaCallback(on_epoch_end=compare), epochs=14)
    assert len(ends) >= 3, ends
    # No pull in the first projection, some in those after it.
    assert not any(penalties[: ends[0] + 1])
    assert min(penalties[ends[0] + 2 :]) > 1e-6
