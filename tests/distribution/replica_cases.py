"""Trains small models for 20 steps and writes what came of them; run by test_replicas.py in other processes.

  python replica_cases.py none|mirrored|multi_worker OUTPUT.npz CASE...

A case is LOSS-METHOD-BATCH_NORM-DTYPE, such as margin-profs-sync-float64; LOSS may be margin+memory. With
float64 only what is wrong differs between one replica and several; float32 is how it is used.
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf

import profs_tf as profs
from profs_tf.datasets.image_list import ImageList
from profs_tf.distribution.strategy import is_chief, make_strategy
from profs_tf.losses import get as get_loss
from profs_tf.models.inference import embed
from profs_tf.runs.factory import in_precision
from profs_tf.sampling.hncm.sampler import MinedBatchSampler

STEPS, SIDE, DIM, CLASSES = 20, 8, 6, 12
RATE, WEIGHT = 2.0**-8, 2.0**-3
RANDOM = np.random.default_rng(0)
PIXELS = RANDOM.integers(0, 256, (4 * CLASSES + 3, SIDE, SIDE, 3), np.uint8)
DATA = ImageList.from_labels(PIXELS, [*np.repeat(np.arange(CLASSES), 4), 0, 1, 2])
PREPROCESSING = profs.Preprocessing(resize=SIDE, crop=SIDE, shift=1)
WITH_PROXIES = ("proxy_anchor", "norm_softmax", "cos_face", "arc_face")
OWN_OPTIONS = {
    "margin": {"boundary_per_class": True, "num_classes": CLASSES},
    "soft_triple": {"num_classes": CLASSES, "embedding_dim": DIM, "centers_per_class": 3},
    **{name: {"num_classes": CLASSES, "embedding_dim": DIM} for name in WITH_PROXIES},
}


def make_embedder(batch_norm, dtype, normalize):
    output_dtype = "float32" if dtype.startswith("mixed") else dtype

    def dense(size, seed, name, **options):
        kernel = tf.keras.initializers.HeNormal(seed=seed)
        return tf.keras.layers.Dense(size, kernel_initializer=kernel, dtype=dtype, name=name, **options)

    images = tf.keras.Input([SIDE, SIDE, 3])
    x = tf.keras.layers.Rescaling(1 / 127.5, -1.0, dtype=dtype)(images)
    regularizer = tf.keras.regularizers.L2(2.0**-6)
    x = dense(16, 1, "hidden", use_bias=False, kernel_regularizer=regularizer)(tf.keras.layers.Flatten()(x))
    norm = tf.keras.layers.BatchNormalization(synchronized=batch_norm == "sync", momentum=0.75, dtype=dtype)
    x = norm(x, training=False) if batch_norm == "frozen" else norm(x)
    x = tf.keras.layers.ReLU(dtype=output_dtype)(x)
    dtype = output_dtype
    # A bias moves no distance between embeddings as they are: its gradient would be nothing but rounding.
    x = dense(DIM, 2, "head", use_bias=normalize)(x)
    x = tf.keras.layers.UnitNormalization(dtype=dtype)(x) if normalize else x
    return tf.keras.Model(images, x)


class Recorder(tf.keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.losses, self.penalties, self.mined = [], [], []

    def on_train_batch_end(self, batch, logs=None):
        # Keras gives running means.
        self.losses.append(logs["loss"])
        self.penalties.append(logs["proximal_penalty"])
        if self.model.representative_tap is not None:
            self.mined.append(self.model.representative_tap.classes.numpy())


def refusals(strategy):
    """Returns the errors of what cannot be right with several replicas."""
    sampler = profs.BatchSampler(DATA.labels, 9, 3)
    plain = profs.train_pipeline(DATA, sampler, PREPROCESSING)
    with strategy.scope():
        embedder = make_embedder("frozen", "float32", True)
        model = profs.ProfsModel(embedder, 0.0)
        model.compile(profs.head_adam(embedder), profs.losses.ContrastiveLoss())
        texts = tf.keras.Input([], dtype=tf.string)
        lookup = tf.keras.layers.StringLookup()
        tokens = tf.keras.layers.Embedding(4, DIM)(lookup(texts))
        tables = profs.ProfsModel(tf.keras.Model(texts, tf.keras.layers.Dense(DIM, name="head")(tokens)))
    outside = profs.losses.MarginLoss()
    messages = []
    for call in (
        lambda: profs.train_pipeline(DATA, sampler, PREPROCESSING, strategy=strategy),
        lambda: model.fit(plain, steps_per_epoch=1, verbose=0),
        lambda: model.compile("sgd", outside),
        lambda: tables.compile("sgd", profs.losses.ContrastiveLoss()),
    ):
        try:
            call()
            messages.append("")
        except ValueError as error:
            messages.append(str(error))
    return messages


def steps_in_a_loaded_file(strategy, path):
    """Returns the step of a model whose weights went through a `.weights.h5` file within the strategy."""
    models = []
    for _ in range(2):
        with strategy.scope():
            embedder = make_embedder("own", "float32", True)
            models.append(profs.ProfsModel(embedder, WEIGHT))
            models[-1].compile(profs.head_adam(embedder), profs.losses.MarginLoss())
    saved, loaded = models
    sampler = profs.BatchSampler(DATA.labels, 8, 2, seed=1, steps_per_projection=6)
    pipeline = profs.train_pipeline(DATA, sampler, PREPROCESSING, strategy=strategy)
    saved.fit(pipeline, steps_per_epoch=2, callbacks=[profs.ProfsCallback(sampler)], verbose=0)
    saved.save_weights(path)
    with strategy.scope():
        loaded.load_weights(path)
    for one, other in zip(saved.proximal.anchor_weights, loaded.proximal.anchor_weights):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    return loaded.steps_taken


def make_loss(name):
    loss_name, _, with_memory = name.partition("+")
    loss = get_loss(loss_name, **OWN_OPTIONS.get(loss_name, {}))
    return profs.losses.CrossBatchMemory(loss, DIM, size=21, start_step=3) if with_memory else loss


def run_case(case, strategy):
    loss_name, method, batch_norm, dtype = case.split("-")
    with strategy.scope(), in_precision(dtype if dtype.startswith("mixed") else "float32"):
        loss = make_loss(loss_name)
        embedder = make_embedder(batch_norm, dtype, loss.normalized_embeddings)
        model = profs.ProfsModel(embedder, WEIGHT)
        model.compile(profs.head_adam(embedder, RATE, epsilon=2.0**-10), loss)
    sampler_class = MinedBatchSampler if method == "hncm" else profs.BatchSampler
    lagged = loss.has_prototypes
    sampler = sampler_class(DATA.labels, 8, 2, seed=1, steps_per_projection=1 if lagged else 6)
    recorder = Recorder()
    model.fit(
        profs.train_pipeline(DATA, sampler, PREPROCESSING, strategy=strategy),
        steps_per_epoch=STEPS,
        callbacks=[profs.ProfsCallback(sampler), recorder],
        verbose=0,
    )
    assert model.steps_taken == STEPS
    results = {name: np.array(values) for name, values in vars(recorder).items() if isinstance(values, list)}
    # With a batch that neither divides the 51 images nor is divided by two replicas.
    results["embeddings"] = embed(embedder, DATA, preprocessing=PREPROCESSING, batch_size=7)
    held_out = profs.BatchSampler(DATA.labels, 8, 2, seed=2)
    pipeline = profs.train_pipeline(DATA, held_out, PREPROCESSING, strategy=strategy)
    results["evaluation"] = np.array(model.evaluate(pipeline, steps=3, verbose=0))
    variables = {
        "weight": embedder.trainable_variables,
        "statistic": embedder.non_trainable_variables,
        "anchor": model.proximal.anchor_weights,
        "own": loss.variables,
        "scale": [getattr(model.optimizer, "loss_scale", tf.zeros([]))],
        "moment": [v for v in model.optimizer.variables if v.dtype.is_floating and "/" in v.name],
    }
    for kind, group in variables.items():
        results.update({f"{kind}_{number}": variable.numpy() for number, variable in enumerate(group)})
    return {f"{case}/{name}": value for name, value in results.items()}


def main(distribute, output, *cases):
    strategy = make_strategy(distribute, 2 if distribute == "mirrored" else None)
    tf.config.experimental.enable_op_determinism()
    tf.keras.utils.set_random_seed(0)
    results = {"refusals": np.array(refusals(strategy) if strategy.num_replicas_in_sync > 1 else [])}
    if distribute == "mirrored":
        results["loaded_step"] = steps_in_a_loaded_file(strategy, output.replace(".npz", ".weights.h5"))
    for case in cases:
        results.update(run_case(case, strategy))
    if not is_chief(strategy):
        output = output.replace(".npz", "_other.npz")
    np.savez(output, replicas=strategy.num_replicas_in_sync, **results)


if __name__ == "__main__":
    main(*sys.argv[1:])
