"""What `fit` checks: weights, anchors, sampler and data, and layers frozen after `compile`."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import profs_tf as profs
from profs_tf.models.non_finite import NonFiniteLossError
from profs_tf.sampling.hncm.sampler import MinedBatchSampler
from tests.models.tiny import (
    DIM,
    IMAGES,
    PIXELS,
    PLAIN,
    SIDE,
    STEPS,
    assert_same_state,
    fit,
    make_model,
    make_sampler,
)

# Where a step need not be compiled, which takes longer than all steps.
make_eager_model = functools.partial(make_model, run_eagerly=True)


def rows(sampler, start=None):
    for batch in sampler.iterate_from(sampler.first_step if start is None else start):
        yield PIXELS[batch.indices].astype(np.float32), batch.labels, batch.is_representative


class Freezes(tf.keras.callbacks.Callback):
    def __init__(self, moment):
        super().__init__()
        self.moment = moment

    def _freeze(self, moment):
        if moment == self.moment:
            self.model.embedder.get_layer("mid").trainable = False

    def on_train_begin(self, logs=None):
        self._freeze("train")

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1:
            self._freeze("epoch")


@pytest.mark.parametrize("moment", ["train", "epoch"])
@pytest.mark.parametrize("run_eagerly", [False, True])
def test_a_layer_frozen_while_training_stays_and_the_others_keep_their_anchors(moment, run_eagerly):
    # After an epoch together, the two must be equal in every bit.
    expected_eagerly = run_eagerly or moment == "train"
    model, expected = make_model(run_eagerly=run_eagerly), make_model(run_eagerly=expected_eagerly)
    before = model.embedder.get_layer("mid").get_weights()
    fit(model, make_sampler(), [None, Freezes(moment)], epochs=2)
    if moment == "train":
        expected.embedder.get_layer("mid").trainable = False
        expected.compile(
            profs.head_adam(expected.embedder, 0.01), profs.losses.MarginLoss(), run_eagerly=True
        )
        np.testing.assert_array_equal(model.embedder.get_layer("mid").get_weights()[0], before[0])
        fit(expected, make_sampler(), epochs=2)
    else:
        fit(expected, make_sampler())
        np.testing.assert_array_equal(
            model.embedder.get_layer("mid").kernel, expected.embedder.get_layer("mid").kernel
        )
        expected.embedder.get_layer("mid").trainable = False
        fit(expected, make_sampler())
    for name in ("conv", "head"):
        np.testing.assert_allclose(
            model.embedder.get_layer(name).kernel, expected.embedder.get_layer(name).kernel, atol=1e-6
        )


def test_a_layer_made_trainable_after_compile_is_refused():
    model = make_model()
    layer = model.embedder.get_layer("mid")
    layer.trainable = False
    model.compile("sgd", profs.losses.ContrastiveLoss())
    layer.trainable = True
    with pytest.raises(ValueError, match="mid/kernel:0 has no anchor weights. Compile") as error:
        fit(model, make_sampler())
    assert "\n" not in str(error.value)


def test_training_of_nothing_is_refused():
    model = make_model(loss=profs.losses.ContrastiveLoss())
    model.embedder.trainable = False
    with pytest.raises(ValueError, match="`embedder` must have a trainable layer, got none"):
        fit(model, make_sampler())


def test_prototypes_train_alone_while_the_embedder_is_frozen():
    model = make_model(loss=profs.losses.ProxyNCALoss(6, 4))
    model.embedder.trainable = False
    optimizer = profs.head_adam(make_model().embedder, 0.01)
    model.compile(optimizer, profs.losses.ProxyNCALoss(6, 4), run_eagerly=True)
    weights, proxies = model.embedder.get_weights(), model.metric_loss.trainable_variables[0].numpy()
    history = fit(model, make_sampler()).history
    assert history["proximal_penalty"] == [0.0]
    assert (model.metric_loss.trainable_variables[0].numpy() != proxies).any()
    for before, after in zip(weights, model.embedder.get_weights()):
        np.testing.assert_array_equal(before, after)


def test_nan_in_a_weight_is_found_before_training_and_blamed_on_the_weights():
    model = make_model(0.0)
    kernel = model.embedder.get_layer("conv").kernel
    kernel[0, 0, 0, 0].assign(float("nan"))
    with pytest.raises(ValueError, match=r"`embedder` must hold finite values .* conv/kernel:0. The file"):
        fit(model, make_sampler())


class Breaks(tf.keras.callbacks.Callback):
    """Puts NaN into a weight after a step."""

    def on_train_batch_end(self, batch, logs=None):
        if self.model.steps_taken == 2:
            self.model.embedder.get_layer("conv").kernel[0, 0, 0, 0].assign(float("nan"))


def make_embedder_that_hides_nan():
    """As a fused ReLU does on some processors."""
    images = tf.keras.Input([SIDE, SIDE, 3])
    x = tf.keras.layers.Conv2D(4, 3, name="conv")(images)
    x = tf.keras.layers.Lambda(lambda x: tf.where(x > 0.0, x, tf.zeros_like(x)))(x)
    x = tf.keras.layers.GlobalAveragePooling2D()(x)
    return tf.keras.Model(images, tf.keras.layers.Dense(DIM, name="head")(x))


def test_hidden_nan_stops_training_and_repaired_weights_train():
    embedder, sampler = make_embedder_that_hides_nan(), make_sampler()
    model = profs.ProfsModel(embedder, 0.0)
    model.compile(profs.head_adam(embedder, 0.01), profs.losses.MarginLoss())
    weights = embedder.get_weights()
    with pytest.raises(NonFiniteLossError, match="The weights are not finite since step 2"):
        fit(model, sampler, [None, Breaks()])
    embedder.set_weights(weights)
    model.compile(profs.head_adam(embedder, 0.01), profs.losses.MarginLoss())
    assert np.isfinite(fit(model, sampler).history["loss"]).all()


def test_nan_in_a_moment_is_blamed_on_the_optimizer():
    model = make_model()
    model.optimizer.variables[1].assign(tf.fill(model.optimizer.variables[1].shape, float("nan")))
    with pytest.raises(ValueError, match="`optimizer` must hold finite values .* with a new optimizer"):
        fit(model, make_sampler())


def test_a_fit_without_the_callback_is_refused_after_one_with_it():
    model, sampler = make_eager_model(), make_sampler()
    fit(model, sampler)
    data = profs.train_pipeline(IMAGES, sampler, PLAIN)
    with pytest.raises(ValueError, match="`proximal_weight` > 0 needs the anchor weights moved"):
        model.fit(data, steps_per_epoch=1, verbose=0)
    with pytest.raises(ValueError, match="`proximal_weight` > 0 needs the anchor weights moved"):
        model.train_on_batch(*next(iter(data)))
    model.proximal.swap(0)
    model.train_on_batch(*next(iter(data)))
    assert model.steps_taken == STEPS + 1


@pytest.mark.parametrize("derived", [False, True])
def test_a_callback_with_another_sampler_than_the_data_is_refused(derived):
    other = profs.BatchSampler(IMAGES.labels, 6, 2, seed=2, steps_per_projection=3)
    data = profs.train_pipeline(IMAGES, other, PLAIN)
    message = "`sampler` of ProfsCallback must be that of the data"
    if derived:
        data, message = data.take(STEPS), "got other labels than those of step 0"
    with pytest.raises(ValueError, match=message):
        fit(make_eager_model(), make_sampler(), data=data)


def test_two_callbacks_that_move_the_anchors_are_refused():
    callbacks = [profs.ProfsCallback(make_sampler()), profs.ProfsCallback(make_sampler())]
    with pytest.raises(ValueError, match="`callbacks` must hold one ProfsCallback, got 2"):
        make_model().fit(rows(make_sampler()), steps_per_epoch=1, callbacks=callbacks)


def test_a_mined_sampler_with_other_data_is_refused():
    data = profs.train_pipeline(IMAGES, make_sampler(), PLAIN)
    with pytest.raises(ValueError, match="`sampler` of ProfsCallback must be that of the data"):
        fit(make_eager_model(), make_sampler(MinedBatchSampler), data=data)


class Batches(tf.keras.utils.Sequence):
    def __init__(self, sampler):
        self.sampler, self.epoch = sampler, 0

    def __len__(self):
        return STEPS

    def __getitem__(self, index):
        batch = self.sampler.batch(self.sampler.first_step + index)
        return PIXELS[batch.indices].astype(np.float32), batch.labels, batch.is_representative


@pytest.mark.parametrize("kind", ["generator", "sequence"])
def test_a_second_fit_on_python_data_continues(kind):
    whole, sampler = make_eager_model(), make_sampler()
    fit(whole, sampler, epochs=2)
    model, sampler = make_eager_model(), make_sampler()
    for _ in range(2):
        data = rows(sampler) if kind == "generator" else Batches(sampler)
        fit(model, sampler, data=data, shuffle=False)
    assert_same_state(whole, model)


def test_data_out_of_step_are_refused():
    model, sampler = make_eager_model(), make_sampler()
    with pytest.raises(ValueError, match="got other labels than those of step 0"):
        fit(model, sampler, data=rows(sampler, start=1))


@pytest.mark.parametrize("options", [{"workers": 2}, {"use_multiprocessing": True}])
def test_a_generator_whose_order_is_not_kept_is_refused(options):
    sampler = make_sampler()
    with pytest.raises(ValueError, match="`workers` must be 1 and `use_multiprocessing` False"):
        fit(make_eager_model(), sampler, data=rows(sampler), **options)


def test_arguments_that_would_have_no_effect_are_refused():
    model, sampler = make_eager_model(), make_sampler()
    with pytest.raises(ValueError, match="`class_weight` must be left out"):
        fit(model, sampler, class_weight={0: 2.0})
    with pytest.raises(ValueError, match="`class_weight` must be left out"):
        model.train_on_batch(PIXELS[:2], [0, 1], class_weight={0: 2.0})
    with pytest.raises(ValueError, match="`callbacks` must be a list, got a CallbackList"):
        model.fit(PIXELS, callbacks=tf.keras.callbacks.CallbackList())


def test_ordinary_batches_without_a_callback_go_on_where_the_last_fit_ended():
    def ordinary():
        options = {"seed": 1, "queries": "all", "steps_per_projection": 1}
        return make_eager_model(proximal_weight=0.0), profs.BatchSampler(IMAGES.labels, 6, 2, **options)

    whole, sampler = ordinary()
    whole.fit(profs.train_pipeline(IMAGES, sampler, PLAIN), epochs=2, steps_per_epoch=STEPS, verbose=0)
    model, sampler = ordinary()
    data = profs.train_pipeline(IMAGES, sampler, PLAIN)
    for _ in range(2):
        model.fit(data, steps_per_epoch=STEPS, verbose=0)
    assert_same_state(whole, model)


def test_a_mined_sampler_without_its_callback_is_refused():
    data = profs.train_pipeline(IMAGES, make_sampler(MinedBatchSampler), PLAIN)
    with pytest.raises(ValueError, match="`callbacks` must hold the ProfsCallback of a MinedBatchSampler"):
        make_eager_model(proximal_weight=0.0).fit(data, steps_per_epoch=1)


def test_calls_that_begin_between_swaps_are_refused():
    model, sampler = make_model(), make_sampler()
    fit(model, sampler, steps_per_epoch=1)
    options = {"steps_per_execution": 3}
    model.compile(profs.head_adam(model.embedder, 0.01), profs.losses.MarginLoss(), **options)
    message = "`steps_per_execution` must divide the 1 steps that the model has taken, got 3"
    with pytest.raises(ValueError, match=message):
        fit(model, sampler, steps_per_epoch=3)


def test_a_model_must_be_compiled():
    model = profs.ProfsModel(make_model().embedder)
    for train in (lambda: fit(model, make_sampler()), lambda: model.train_on_batch(PIXELS[:2], [0, 1])):
        with pytest.raises(RuntimeError, match="You must compile your model"):
            train()
