"""Class mining from what a loss holds for each class: proxies and centers after step t - lag, exactly."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import profs_tf as profs
from profs_tf.datasets.image_list import ImageList
from profs_tf.runs.checkpoint import RunCheckpoint
from profs_tf.sampling.hncm.sampler import MinedBatchSampler
from profs_tf.sampling.hncm.selection import ClassMining
from tests.callbacks.grouped_classes import PLAIN, make_model
from tests.losses.loss_cases import WITH_PROXIES

NUM_CLASSES, DIM, LAG, STEPS = 24, 8, 3, 40
PIXELS = np.random.default_rng(0).integers(0, 256, (NUM_CLASSES * 3, 6, 6, 3)).astype(np.uint8)
DATA = ImageList.from_labels(PIXELS, np.repeat(np.arange(NUM_CLASSES), 3))
LOSSES = {
    **{
        name: functools.partial(
            profs.losses.get, name, num_classes=NUM_CLASSES, embedding_dim=DIM, learning_rate=0.1
        )
        for name in WITH_PROXIES
    },
    "soft_triple": lambda: profs.losses.SoftTripleLoss(NUM_CLASSES, DIM, 3, learning_rate=0.1),
}
# They give their proxies as Proxy-NCA does.
ALIKE = WITH_PROXIES[1:]
# Per loss, from its variable to the classes' vectors, as the documentation says.
VECTORS = {
    **dict.fromkeys(WITH_PROXIES, lambda loss: unit(loss.proxies.numpy().astype(np.float64))),
    "soft_triple": lambda loss: unit(np.mean(unit(loss.centers.numpy().astype(np.float64)), axis=1)),
}


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


class RecordingSampler(MinedBatchSampler):
    """Notes the batches that it gave, by step."""

    def __init__(self):
        super().__init__(
            DATA.labels,
            16,
            2,
            seed=2,
            mining=ClassMining(3),
            lag=LAG,
            steps_per_projection=1,
            queries="all",
        )
        self.given = {}

    def iterate_from(self, first_step=0):
        for batch in super().iterate_from(first_step):
            self.given[batch.step] = batch
            yield batch


class VectorRecords(tf.keras.callbacks.Callback):
    """The classes' vectors before training and after each step."""

    def __init__(self, name):
        super().__init__()
        self.name = name
        self.vectors = []

    def on_train_begin(self, logs=None):
        self.vectors.append(VECTORS[self.name](self.model.metric_loss))

    def on_train_batch_end(self, batch, logs=None):
        self.vectors.append(VECTORS[self.name](self.model.metric_loss))


def train(model, steps, sampler, *callbacks):
    model.fit(
        profs.train_pipeline(DATA, sampler, PLAIN), steps_per_epoch=steps, callbacks=callbacks, verbose=0
    )


def whole_state(model):
    return [
        v.numpy()
        for v in [*model.embedder.variables, *model.metric_loss.variables, *model.optimizer.variables]
    ]


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[pytest.mark.slow] if name in ALIKE else []) for name in LOSSES],
)
def whole_run(request):
    model, sampler = make_model(loss=LOSSES[request.param]()), RecordingSampler()
    records = VectorRecords(request.param)
    train(model, STEPS, sampler, profs.ProfsCallback(sampler), records)
    return request.param, records.vectors, sampler.given, whole_state(model)


def test_each_batch_is_mined_from_the_vectors_after_the_step_that_the_lag_names(whole_run):
    _, vectors, given, _ = whole_run
    told_apart = 0
    for step in range(STEPS):
        # vectors[s + 1] are those after step s; before training where there is no step t - lag.
        seen = vectors[max(0, step - LAG + 1)]
        batch = given[step].labels[:8].tolist()
        for first in (0, 4):
            rest = np.setdiff1d(np.arange(NUM_CLASSES), batch[: first + 1])
            distances = np.linalg.norm(seen[rest] - seen[batch[first]], axis=1)
            nearest = rest[np.argsort(distances)[:3]].tolist()
            assert batch[first + 1 : first + 4] == nearest
        for fresher in vectors[step - LAG + 2 : step + 1] if step >= LAG else []:
            rest = np.setdiff1d(np.arange(NUM_CLASSES), batch[:1])
            distances = np.linalg.norm(fresher[rest] - fresher[batch[0]], axis=1)
            told_apart += rest[np.argsort(distances)[:3]].tolist() != batch[1:4]
    assert told_apart > 10  # vectors of other steps would have given other batches


def test_two_runs_are_equal(whole_run):
    name, _, given, state = whole_run
    model, sampler = make_model(loss=LOSSES[name]()), RecordingSampler()
    train(model, STEPS, sampler, profs.ProfsCallback(sampler))
    for one, other in zip(state, whole_state(model)):
        np.testing.assert_array_equal(one, other)
    for step in range(STEPS):
        np.testing.assert_array_equal(given[step].indices, sampler.given[step].indices)


@pytest.mark.parametrize("stops", [(2, 17), pytest.param((1, 3), marks=pytest.mark.slow)])
def test_a_run_resumed_again_and_again_is_equal(stops, whole_run, tmp_path):
    name, _, given, state = whole_run
    for begin, end in zip((0, *stops), (*stops, STEPS)):
        model, sampler = make_model(loss=LOSSES[name]()), RecordingSampler()
        link = profs.ProfsCallback(sampler)
        checkpoint = RunCheckpoint(tmp_path, model, {"projections": link})
        assert checkpoint.restore() == (begin > 0)
        train(model, end - begin, sampler, link)
        checkpoint.save()
        for step in range(begin, end):
            np.testing.assert_array_equal(given[step].indices, sampler.given[step].indices)
    for one, other in zip(state, whole_state(model)):
        np.testing.assert_array_equal(one, other)


def test_a_second_fit_with_an_embedding_loss_goes_on_from_the_vectors():
    model, sampler = make_model(loss=LOSSES["proxy_nca"]()), RecordingSampler()
    link = profs.ProfsCallback(sampler)
    train(model, 5, sampler, link)
    model.compile(profs.head_adam(model.embedder, 1e-3), profs.losses.ContrastiveLoss())
    train(model, 5, sampler, link)
    assert max(sampler.given) >= 9


def test_another_number_of_classes_is_refused():
    sampler = RecordingSampler()
    with pytest.raises(ValueError, match="`num_classes` of the loss must be the sampler's 24 .*, got 25"):
        train(make_model(loss=profs.losses.ProxyNCALoss(25, DIM)), 2, sampler, profs.ProfsCallback(sampler))
