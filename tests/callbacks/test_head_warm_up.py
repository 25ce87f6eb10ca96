import numpy as np
import pytest
import tensorflow as tf

import profs_tf as profs
from profs_tf.callbacks.head_warm_up import HeadWarmUp

IMAGES = np.random.default_rng(0).uniform(0, 255, (8, 16, 16, 3)).astype("f")
LABELS = np.repeat(np.arange(4), 2)


def compiled_model(run_eagerly=True, **optimizer):
    embedder = profs.build_embedder("conv4", 4, seed=0, freeze_batch_norm="statistics")
    model = profs.ProfsModel(embedder, proximal_weight=0.0)
    optimizer = profs.head_adam(embedder, 1e-2, **optimizer)
    model.compile(optimizer, profs.losses.MarginLoss(), run_eagerly=run_eagerly)
    return model


def fit(model, callbacks, epochs=1, initial_epoch=0):
    data = tf.data.Dataset.from_tensors((IMAGES, LABELS)).repeat()
    model.fit(
        data,
        epochs=epochs,
        initial_epoch=initial_epoch,
        steps_per_epoch=2,
        callbacks=callbacks,
        verbose=0,
    )


def changed(model, before):
    names = [variable.name for variable in model.embedder.trainable_variables]
    after = model.embedder.trainable_variables
    return {
        name.split("/")[0] == "head"
        for name, old, new in zip(names, before, after)
        if np.any(old != new.numpy())
    }


def weights(model):
    return [variable.numpy() for variable in model.embedder.trainable_variables]


@pytest.mark.parametrize(("weight_decay", "run_eagerly"), [(None, True), (0.1, False)])
def test_only_the_head_and_the_loss_train_at_first(weight_decay, run_eagerly):
    model, warm_up = compiled_model(run_eagerly, weight_decay=weight_decay), HeadWarmUp(1)
    before, boundary = weights(model), float(model.metric_loss.boundary)
    fit(model, [warm_up])
    assert changed(model, before) == {True}
    assert float(model.metric_loss.boundary) != boundary
    before = weights(model)
    fit(model, [warm_up], epochs=2, initial_epoch=1)
    assert changed(model, before) == {True, False}


def test_multipliers_are_afterwards_what_they_were():
    model = compiled_model()
    first, *rest = (v for v in model.embedder.trainable_variables if not v.name.startswith("head"))
    model.optimizer.set_multiplier([first], 0.5)
    warm_up = HeadWarmUp(5)
    for epoch in range(2):
        fit(model, [warm_up], epochs=epoch + 1, initial_epoch=epoch)
        assert model.optimizer.multiplier_of(first) == 0.5
        assert {model.optimizer.multiplier_of(variable) for variable in rest} == {1.0}


def test_other_optimizers_are_refused():
    model = compiled_model()
    model.compile(tf.keras.optimizers.Adam(), profs.losses.MarginLoss())
    with pytest.raises(ValueError, match=r"`optimizer` must be a HeadAdam for a warm-up, got Adam\. Pass"):
        fit(model, [HeadWarmUp(1)])
    with pytest.raises(ValueError, match="`epochs` must be >= 0, got -1"):
        HeadWarmUp(-1)


class Stops(tf.keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        raise KeyboardInterrupt


def test_an_interrupted_warm_up_releases_the_backbone():
    model = compiled_model()
    with pytest.raises(KeyboardInterrupt):
        fit(model, [HeadWarmUp(5), Stops()])
    before = weights(model)
    fit(model, [])
    assert changed(model, before) == {True, False}
