"""Training with hard negative class mining: reproducible, resumable, and it mines what it says."""

import threading
import time

import numpy as np
import pytest
import tensorflow as tf

import profs_tf as profs
from profs_tf.callbacks.class_mining import MiningLink
from profs_tf.runs.checkpoint import RunCheckpoint
from profs_tf.sampling.hncm.sampler import MinedBatchSampler
from profs_tf.sampling.hncm.selection import ClassMining
from tests.callbacks.grouped_classes import (
    DATA,
    GROUPS,
    NUM_CLASSES,
    PLAIN,
    grouped_images,
    make_model,
    weights,
)

LAG = 3
TIGHT_GROUPS, TIGHT_CLASSES = 40, 200
# A class differs from the others of its group by as much as its own images from each other: training cannot
# tell them apart.
TIGHT_DATA = grouped_images(TIGHT_GROUPS, 5, class_noise=1, image_noise=1)


def make_sampler():
    return MinedBatchSampler(DATA.labels, 16, 2, seed=2, mining=ClassMining(3), lag=LAG)


def make_tight_sampler():
    """Batches of 40 classes: 8 seeds, each with 4 neighbors. M = 30."""
    return MinedBatchSampler(TIGHT_DATA.labels, 80, 2, seed=2, mining=ClassMining(4), lag=LAG)


class Records(tf.keras.callbacks.Callback):
    """The classes of every batch, and the embeddings of their representatives."""

    def __init__(self):
        super().__init__()
        self.classes = []
        self.embeddings = []

    def on_train_batch_end(self, batch, logs=None):
        self.classes.append(self.model.representative_tap.classes.numpy().copy())
        self.embeddings.append(self.model.representative_tap.embeddings.numpy().copy())


def train(model, steps, sampler=None, link=None, *callbacks, data=DATA):
    sampler = sampler or make_sampler()
    link = link or profs.ProfsCallback(sampler)
    records = Records()
    model.fit(
        profs.train_pipeline(data, sampler, PLAIN),
        steps_per_epoch=steps,
        callbacks=[link, records, *callbacks],
        verbose=0,
    )
    return records.classes


def assert_equal_runs(one, other):
    np.testing.assert_array_equal(one[0], other[0])
    for a, b in zip(one[1], other[1]):
        np.testing.assert_array_equal(a, b)


@pytest.fixture(scope="module")
def whole_run():
    model = make_model()
    classes = train(model, 60)
    return classes, weights(model)


def neighbors_found(classes, num_classes, groups, hard_classes):
    """The same-group classes that followed each seed, once every representative was seen and mined from."""
    classes = np.array(classes)
    seen_by = next(t for t in range(len(classes)) if len(set(classes[:t].ravel())) == num_classes)
    of_seeds = classes[seen_by + LAG :].reshape(-1, 1 + hard_classes)
    assert len(of_seeds) > 100
    return np.sum(of_seeds[:, 1:] % groups == of_seeds[:, :1] % groups, axis=1)


def test_batches_hold_the_neighbors_through_training():
    # Whole groups join a batch, so no seed is short of neighbors: who knew the groups would find 4 of 4.
    sampler, model = make_tight_sampler(), make_model()
    before = model.embedder.get_layer("head").kernel.numpy()
    classes = train(model, 180, sampler, data=TIGHT_DATA)
    moved = np.abs(model.embedder.get_layer("head").kernel - before)
    assert np.mean(moved) > 0.5 * np.mean(np.abs(before))
    assert sampler.steps_per_projection == 30  # with several swaps of representatives
    found = neighbors_found(classes, TIGHT_CLASSES, TIGHT_GROUPS, 4)
    assert np.mean(found) >= 3.0
    assert np.mean(found) >= 0.95 * 4
    unmined = profs.BatchSampler(TIGHT_DATA.labels, 80, 2, seed=2)
    drawn = [unmined.batch(step).labels[:40] for step in range(180)]
    assert np.mean(neighbors_found(drawn, TIGHT_CLASSES, TIGHT_GROUPS, 4)) == pytest.approx(
        4 * 4 / 199, abs=0.03
    )


def test_a_model_can_go_on_with_other_batches():
    model = make_model()
    for batch_size in (16, 8, 16):
        sampler = MinedBatchSampler(DATA.labels, batch_size, 2, seed=2, mining=ClassMining(3), lag=LAG)
        link = profs.ProfsCallback(sampler)
        link.restore({})
        records = train(model, 2, sampler, link)
        assert [len(set(classes.tolist())) for classes in records] == [batch_size // 2] * 2
    ordinary = profs.BatchSampler(DATA.labels, 4, 2, seed=2)
    model.fit(
        profs.train_pipeline(DATA, ordinary, PLAIN),
        steps_per_epoch=2,
        callbacks=[profs.ProfsCallback(ordinary)],
        verbose=0,
    )
    assert model.representative_tap is None


@pytest.mark.parametrize("tight", [True, False])
def test_an_untrained_network_gives_every_neighbor(tight):
    if tight:
        classes = train(make_model(0.0), 180, make_tight_sampler(), data=TIGHT_DATA)
        assert np.all(neighbors_found(classes, TIGHT_CLASSES, TIGHT_GROUPS, 4) == 4)
    else:
        assert np.all(neighbors_found(train(make_model(0.0), 120), NUM_CLASSES, GROUPS, 3) == 3)


def test_each_seed_brings_the_nearest_of_the_memory_while_groups_dissolve():
    # These groups can be told apart, and training does so: neighbors stop being of one group. What holds all
    # the way is that they are the nearest by the embeddings of the steps up to t - lag.
    records = Records()
    train(make_model(), 120, None, None, records)
    found = neighbors_found(records.classes, NUM_CLASSES, GROUPS, 3)
    assert np.mean(found[-40:]) < np.mean(found[:40])
    memory = np.full([NUM_CLASSES, 8], np.inf)
    for step, batch in enumerate(records.classes):
        if step >= LAG:
            memory[records.classes[step - LAG]] = records.embeddings[step - LAG]
        known = np.isfinite(memory[:, 0])
        for first in (0, 4):
            if known[batch[first]]:
                rest = [c for c in np.flatnonzero(known) if c not in batch[: first + 1]]
                distances = {c: np.linalg.norm(memory[c] - memory[batch[first]]) for c in rest}
                nearest = sorted(distances.values())[:3]
                got = [distances[c] for c in batch[first + 1 : first + 1 + len(nearest)]]
                np.testing.assert_allclose(got, nearest, atol=1e-3)


def test_two_runs_are_equal_under_load(whole_run):
    stop = threading.Event()

    def load():
        while not stop.is_set():
            np.linalg.svd(np.random.default_rng(0).normal(size=(80, 80)))
            time.sleep(0.002)

    threads = [threading.Thread(target=load) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        model = make_model()
        classes = train(model, 60)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert_equal_runs(whole_run, (classes, weights(model)))


@pytest.mark.parametrize("stops", [(1, 7, 31), pytest.param((2, 58), marks=pytest.mark.slow)])
def test_a_run_resumed_again_and_again_is_equal(stops, whole_run, tmp_path):
    classes = []
    for begin, end in zip((0, *stops), (*stops, 60)):
        model, sampler = make_model(), make_sampler()
        link = profs.ProfsCallback(sampler)
        checkpoint = RunCheckpoint(tmp_path, model, {"projections": link})
        assert checkpoint.restore() == (begin > 0)
        classes += train(model, end - begin, sampler, link)
        checkpoint.save()
    assert_equal_runs(whole_run, (classes, weights(model)))


def test_a_second_fit_goes_on(whole_run):
    model, sampler = make_model(), make_sampler()
    link = profs.ProfsCallback(sampler)
    classes = train(model, 25, sampler, link) + train(model, 35, sampler, link)
    assert_equal_runs(whole_run, (classes, weights(model)))


def test_an_error_in_training_does_not_hang():
    class Fails(tf.keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 5:
                raise KeyError("a user's callback")

    sampler = make_sampler()
    begin = time.monotonic()
    with pytest.raises(KeyError, match="a user's callback"):
        train(make_model(run_eagerly=True), 20, sampler, None, Fails())
    assert time.monotonic() - begin < 60


def test_a_step_before_training_began_is_refused():
    with pytest.raises(ValueError, match="`step` must be of a training that `begin` prepared, got step 7"):
        MiningLink(make_sampler()).step_ends(7)


def test_a_stock_model_is_refused():
    embedder = make_model().embedder
    embedder.compile("sgd", profs.losses.ContrastiveLoss())
    with pytest.raises(ValueError, match="mines classes, which needs a ProfsModel, got a Functional"):
        train(embedder, 2)


def test_several_steps_in_one_execution_are_refused():
    model = make_model()
    model.compile("sgd", profs.losses.ContrastiveLoss(), steps_per_execution=5)
    with pytest.raises(
        ValueError, match="`steps_per_execution` must be 1 with a sampler that mines classes, got 5"
    ):
        train(model, 10)


class Subclassed(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.flat = tf.keras.layers.Flatten()
        self.head = tf.keras.layers.Dense(8, name="head")

    def call(self, images):
        return self.head(self.flat(tf.cast(images, tf.float32) / 255.0))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_a_subclassed_embedder_mines(dtype):
    embedder = Subclassed()
    embedder(np.zeros([1, 6, 6, 3], dtype))
    model = profs.ProfsModel(embedder)
    eagerly = dtype == np.uint8
    model.compile(profs.head_adam(embedder, 1e-3), profs.losses.ContrastiveLoss(), run_eagerly=eagerly)
    train(model, 4)
    assert model.steps_taken == 4
    assert model.representative_tap.embeddings.shape == (8, 8)
    assert np.any(model.representative_tap.embeddings.numpy())
