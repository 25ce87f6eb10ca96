"""A tiny model, its images and its sampler, for tests of what surrounds a training step."""

import numpy as np
import tensorflow as tf

import profs_tf as profs
from profs_tf.datasets.image_list import ImageList

NUM_CLASSES, SIDE, DIM, STEPS = 6, 6, 4, 4
PIXELS = np.random.default_rng(0).integers(0, 256, (NUM_CLASSES * 4, SIDE, SIDE, 3), np.uint8)
IMAGES = ImageList.from_labels(PIXELS, np.repeat(np.arange(NUM_CLASSES), 4))
PLAIN = profs.Preprocessing(resize=SIDE, crop=SIDE, mirror=False)


def make_embedder():
    def kernel(seed):
        return tf.keras.initializers.HeNormal(seed=seed)

    return tf.keras.Sequential(
        [
            tf.keras.Input([SIDE, SIDE, 3]),
            tf.keras.layers.Rescaling(1 / 127.5, -1.0),
            tf.keras.layers.Conv2D(4, 3, activation="relu", kernel_initializer=kernel(1), name="conv"),
            tf.keras.layers.GlobalAveragePooling2D(),
            tf.keras.layers.Dense(5, kernel_initializer=kernel(2), name="mid"),
            tf.keras.layers.Dense(DIM, kernel_initializer=kernel(3), name="head"),
        ]
    )


def make_model(proximal_weight=0.1, loss=None, **compile_options):
    embedder = make_embedder()
    model = profs.ProfsModel(embedder, proximal_weight)
    loss = profs.losses.MarginLoss() if loss is None else loss
    model.compile(profs.head_adam(embedder, 0.01), loss, **compile_options)
    return model


def make_sampler(sampler_class=profs.BatchSampler, **options):
    return sampler_class(IMAGES.labels, 6, 2, seed=1, steps_per_projection=3, **options)


def fit(model, sampler, callbacks=(), epochs=1, data=None, **options):
    """Trains for epochs of 4 steps with ProfsCallback, which stands where the callbacks hold None."""
    callbacks = callbacks or [None]
    callbacks = [profs.ProfsCallback(sampler) if callback is None else callback for callback in callbacks]
    data = profs.train_pipeline(IMAGES, sampler, PLAIN) if data is None else data
    options = {"steps_per_epoch": STEPS, "verbose": 0, **options}
    return model.fit(data, epochs=epochs, callbacks=callbacks, **options)


def state(model):
    """Everything that training goes on from, as arrays."""
    variables = [*model.embedder.variables, *model.proximal.anchor_weights, model.proximal.projection_index]
    variables += [*model.metric_loss.variables, *model.optimizer.variables, model.step]
    return [variable.numpy() for variable in variables]


def assert_same_state(one, other):
    one, other = state(one), state(other)
    assert len(one) == len(other)
    for expected, got in zip(one, other):
        np.testing.assert_array_equal(expected, got)
