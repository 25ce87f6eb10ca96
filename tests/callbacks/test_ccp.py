"""CCP as a callback of `fit`: replayed in NumPy, resumed, and what does not go together."""

import numpy as np
import pytest
import tensorflow as tf

import profs_tf as profs
from profs_tf.inputs.features import FeatureList, feature_pipeline
from profs_tf.sampling.ccp.k_center import draw_pool
from profs_tf.sampling.hncm.sampler import MinedBatchSampler
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


@pytest.mark.parametrize("start", ["present", "best"])
def test_replayed_in_float64_for_three_projections(start):
    model, sampler = make_model(), make_sampler()
    replay = Replay(
        model.embedder.trainable_variables[0].numpy().astype(np.float64),
        (TRAIN.features[0].astype(np.float64), TRAIN.labels),
        (VALIDATION.features[0].astype(np.float64), VALIDATION.labels),
        lambda step: sampler.batch(step).indices,
        lambda k: draw_pool(sampler.table, sampler.seed, k, POOL),
        start=start,
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

    callback = make_callback(sampler, start=start)
    fit(model, callback, tf.keras.callbacks.LambdaCallback(on_epoch_end=compare), epochs=14)
    assert len(ends) >= 3, ends
    # No pull in the first projection, some in those after it.
    assert not any(penalties[: ends[0] + 1])
    assert min(penalties[ends[0] + 2 :]) > 1e-6


def variables_of(model):
    proximal = model.proximal
    return [
        *model.embedder.variables,
        *model.metric_loss.variables,
        *proximal.anchor_weights,
        proximal.projection_index,
    ]


def test_interrupted_and_restored_by_keras_equals_uninterrupted(tmp_path):
    """The best weights and prototypes so far, and the scores, are part of what is restored."""

    def train(epochs, *callbacks):
        model = make_model()
        fit(model, make_callback(make_sampler()), *callbacks, epochs=epochs)
        return model

    def stop(epoch, logs):
        # Between the best evaluation of a projection and its end.
        if epoch == 6:
            raise InterruptedError

    def backup():
        return tf.keras.callbacks.BackupAndRestore(tmp_path / "backup")

    whole = train(9)
    with pytest.raises(InterruptedError):
        train(9, backup(), tf.keras.callbacks.LambdaCallback(on_epoch_begin=stop))
    resumed = train(9, backup())
    assert int(whole.proximal.projection_index.numpy()) >= 2
    for one, other in zip(variables_of(whole), variables_of(resumed)):
        np.testing.assert_array_equal(one.numpy(), other.numpy(), err_msg=one.name)


def test_saved_and_loaded_it_goes_on_as_before(tmp_path):
    """Without the scores so far, which only checkpoints hold: the first projection begins to count anew."""
    model = make_model()
    fit(model, make_callback(make_sampler()), epochs=1)
    model.save(tmp_path / "model.keras")
    loaded = tf.keras.models.load_model(tmp_path / "model.keras")
    for each in (model, loaded):
        fit(each, make_callback(make_sampler()), epochs=2)
    assert type(loaded.metric_loss) is profs.losses.ChanceConstrainedLoss
    for one, other in zip(variables_of(model), variables_of(loaded)):
        np.testing.assert_array_equal(one.numpy(), other.numpy(), err_msg=one.name)


def test_compiled_by_xla_takes_the_same_steps():
    plain, compiled = make_model(), make_model(jit_compile=True)
    for model in (plain, compiled):
        fit(model, make_callback(make_sampler()), epochs=5)
    for one, other in zip(variables_of(plain), variables_of(compiled)):
        np.testing.assert_allclose(one.numpy(), other.numpy(), atol=1e-5, err_msg=one.name)


def test_a_second_fit_goes_on_with_the_projection():
    model, callback = make_model(), make_callback(make_sampler())
    fit(model, callback, epochs=1)
    prototypes = model.metric_loss.prototypes.numpy()
    seen = []
    watch = tf.keras.callbacks.LambdaCallback(
        on_train_batch_begin=lambda batch, logs: seen.append(model.metric_loss.prototypes.numpy())
    )
    fit(model, callback, watch, epochs=1)
    np.testing.assert_array_equal(seen[0], prototypes)


def test_a_model_that_is_compiled_again_begins_anew():
    model, callback = make_model(), make_callback(make_sampler())
    # A score that no evaluation reaches.
    callback.restore({"best_score": 2.0, "stale": 0})
    model.compile("sgd", model.metric_loss)
    fit(model, callback, epochs=1)
    assert 0.0 <= callback.state()["best_score"] <= 1.0


def test_the_best_start_has_the_statistics_of_its_evaluation():
    """Also restored in between: moving statistics belong to the weights by which they were computed."""
    model = make_model()
    layers = [tf.keras.Input([C]), tf.keras.layers.BatchNormalization(momentum=0.5), model.embedder]
    model = profs.ProfsModel(tf.keras.Sequential(layers))
    model.compile("sgd", profs.losses.ChanceConstrainedLoss(profs.losses.ContrastiveLoss(), L, D, K))
    callback = make_callback(make_sampler(), start="best", patience=1)
    scores, found = iter([0.5, 0.4]), []
    callback._score = lambda: next(scores)

    def keep(epoch, logs):
        found.append([variable.numpy() for variable in model.embedder.variables])
        callback.restore(callback.state())

    fit(model, callback, tf.keras.callbacks.LambdaCallback(on_epoch_end=keep), epochs=2)
    assert int(model.proximal.projection_index) == 1
    assert len(found[0]) == 5  # gamma, beta, their statistics, the kernel
    for best, present in zip(*found):
        np.testing.assert_array_equal(present, best)


def test_an_epoch_is_evaluated_before_earlier_weights_are_taken():
    """In whatever order: recalls are those of a run that never returns to earlier weights."""

    def recalls(*order, patience):
        model, callback = make_model(), make_callback(make_sampler(), start="best", patience=patience)
        scores = iter([0.5, 0.4])
        callback._score = lambda: next(scores)
        found = {"ccp": callback, "recall": profs.RecallCallback(VALIDATION, (1,), verbose=False)}
        callbacks = [found[name] for name in order]
        data = feature_pipeline(TRAIN, callback.sampler)
        history = model.fit(data, epochs=2, steps_per_epoch=9, callbacks=callbacks, verbose=0).history
        assert int(model.proximal.projection_index) == (patience == 1)
        return history["mean_pairwise_distance"]

    expected = recalls("recall", "ccp", patience=5)
    assert expected[0] != expected[1]
    assert recalls("ccp", "recall", patience=1) == expected
    assert recalls("recall", "ccp", patience=1) == expected


def test_steps_with_another_callback_count_no_projections():
    model, sampler = make_model(), make_sampler()
    model.fit(
        feature_pipeline(TRAIN, sampler),
        steps_per_epoch=2,
        callbacks=[profs.ProfsCallback(sampler)],
        verbose=0,
    )
    at_random = model.metric_loss.prototypes.numpy()
    history = fit(model, make_callback(sampler), epochs=1).history
    assert history["projection_index"] == [0]
    assert history["proximal_penalty"] == [0.0]
    assert np.abs(model.metric_loss.prototypes - at_random).max() > 0.5


def test_what_does_not_go_together_is_refused():
    sampler = make_sampler()
    with pytest.raises(ValueError, match="`sampler` must draw ordinary batches for CCP"):
        make_callback(profs.BatchSampler(TRAIN.labels, 6, 2))
    with pytest.raises(ValueError, match="`train_images` must be the sampler's 35 images, got 24"):
        profs.CcpCallback(sampler, VALIDATION, VALIDATION)
    with pytest.raises(ValueError, match="`train_images` must be in the order of the sampler's .* index 0"):
        profs.CcpCallback(sampler, TRAIN.take(np.arange(len(TRAIN))[::-1]), VALIDATION)
    names = profs.BatchSampler(
        np.array(list("bacde"))[TRAIN.labels], 6, 2, queries="all", steps_per_projection=1
    )
    assert make_callback(names).sampler is names
    with pytest.raises(ValueError, match="`validation_images` must hold a class with two .* of 4 classes"):
        profs.CcpCallback(sampler, TRAIN, VALIDATION.take(np.arange(4) * 6))
    for option in ("pool_size", "every_epochs", "batch_size"):
        with pytest.raises(ValueError, match=f"`{option}` must be a whole number >= 1, got 0"):
            make_callback(sampler, **{option: 0})
        with pytest.raises(ValueError, match=f"`{option}` must be a whole number >= 1, got 4.5"):
            make_callback(sampler, **{option: 4.5})
    with pytest.raises(ValueError, match="`pool_size` must be at least the 2 prototypes of a class, got 1"):
        fit(make_model(), make_callback(sampler, pool_size=1), epochs=1)
    other = make_model()
    other.compile("sgd", profs.losses.ContrastiveLoss())
    with pytest.raises(ValueError, match="`model` must be a ProfsModel with a ChanceConstrainedLoss for CCP"):
        fit(other, make_callback(sampler), epochs=1)
    other.compile("sgd", profs.losses.ChanceConstrainedLoss(profs.losses.ContrastiveLoss(), 4, D))
    with pytest.raises(ValueError, match="`num_classes` of the loss must be the sampler's 5, got 4"):
        fit(other, make_callback(sampler), epochs=1)


def test_a_sampler_with_a_memory_is_restored():
    def sampler():
        return MinedBatchSampler(TRAIN.labels, 6, 2, seed=3, queries="all", steps_per_projection=1)

    model, callback = make_model(), make_callback(sampler())
    fit(model, callback, epochs=1)
    restored = make_callback(sampler())
    restored.restore(callback.state())
    fit(model, restored, epochs=1)
    assert model.steps_taken == 2 * STEPS
