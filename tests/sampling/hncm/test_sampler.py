import itertools
import threading
import time

import numpy as np
import pytest

from profs_tf.sampling.batch_sampler import BatchSampler
from profs_tf.sampling.hncm.lagged_memory import LaggedMemory, StepEmbeddings
from profs_tf.sampling.hncm.memory import ClassMemory
from profs_tf.sampling.hncm.sampler import MinedBatchSampler
from profs_tf.sampling.hncm.selection import ClassMining
from profs_tf.sampling.lagged.feed import StalledTrainingError

LABELS = np.repeat(np.arange(20), 3)
DIM, LAG = 4, 3


def make_sampler(**options):
    return MinedBatchSampler(LABELS, 16, 2, seed=5, mining=ClassMining(3), lag=LAG, **options)


def message_of(batch):
    """What a step would compute: embeddings that depend on the step and the images."""
    count = int(batch.is_representative.sum())
    random = np.random.default_rng([batch.step, 1])
    noise = 0.1 * random.normal(size=(count, DIM))
    return StepEmbeddings(
        batch.step, batch.labels[:count], np.sin(batch.indices[:count, None] + np.arange(DIM)) + noise
    )


def run(num_steps, sampler=None, history=None, first_step=0):
    sampler = sampler or make_sampler()
    history = history or LaggedMemory(20, DIM, LAG)
    sampler.begin(first_step, history)
    batches = []
    for batch in itertools.islice(sampler, num_steps):
        batches.append(batch)
        message = message_of(batch)
        history.add(message)
        sampler.feed.put(message)
    return batches, history


def assert_same(expected, got):
    assert len(expected) == len(got)
    for one, other in zip(expected, got):
        for a, b in zip(one, other):
            np.testing.assert_array_equal(a, b)


def test_each_batch_is_mined_from_all_steps_up_to_the_lag():
    batches, _ = run(30)
    plain = BatchSampler(LABELS, 16, 2, seed=5)
    for batch in batches:
        memory = ClassMemory(20, DIM)
        for earlier in batches[: max(0, batch.step - LAG + 1)]:
            message = message_of(earlier)
            memory.update(message.classes, message.embeddings)
        expected = plain._make_batch(
            batch.step, lambda random, memory=memory: ClassMining(3).choose(random, memory, 8)
        )
        assert_same([expected], [batch])


def test_running_ahead_changes_nothing():
    expected, _ = run(40)
    sampler, history = make_sampler(), LaggedMemory(20, DIM, LAG)
    sampler.begin(0, history)
    ready, got = [], []

    def run_ahead():
        for batch in itertools.islice(sampler, 40):
            ready.append(batch)

    thread = threading.Thread(target=run_ahead)
    thread.start()
    random = np.random.default_rng(0)
    while len(got) < 40:
        time.sleep(float(random.uniform(0, 0.004)))
        if len(ready) > len(got):
            got.append(ready[len(got)])
            sampler.feed.put(message_of(got[-1]))
        assert len(ready) <= len(got) + LAG  # no further than the lag allows
    thread.join()
    assert_same(expected, got)


@pytest.mark.parametrize("stop", [1, 2, 3, 4, 11, 17])
def test_resumed_equals_never_stopped(stop):
    expected, _ = run(25)
    first, history = run(stop)
    restored = LaggedMemory(20, DIM, LAG)
    restored.restore({name: np.array(value) for name, value in history.arrays().items()})
    second, _ = run(25 - stop, history=restored, first_step=stop)
    assert_same(expected, first + second)


def test_closing_ends_a_waiting_sampler():
    sampler = make_sampler()
    sampler.begin(0, LaggedMemory(20, DIM, LAG))
    batches = []
    thread = threading.Thread(target=lambda: batches.extend(sampler))
    thread.start()
    time.sleep(0.1)
    sampler.feed.close()
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert len(batches) == LAG


def test_a_stalled_trainer_ends_in_an_error():
    sampler = make_sampler()
    sampler.begin(0, LaggedMemory(20, DIM, LAG), stall_seconds=0.2)
    with pytest.raises(StalledTrainingError, match=r"Nothing of step 0 arrived within 0 s.*ProfsCallback"):
        list(sampler)


def test_iterating_without_a_training_is_refused():
    with pytest.raises(ValueError, match="Train with ProfsCallback"):
        next(iter(make_sampler()))


def test_a_single_batch_is_no_function_of_the_step():
    with pytest.raises(TypeError, match="Batch 3 depends on what earlier steps computed"):
        make_sampler().batch(3)


@pytest.mark.parametrize("lag", [0, 2.5])
def test_lag_must_be_positive(lag):
    with pytest.raises(ValueError, match=f"`lag` must be a whole number >= 1, got {lag}"):
        MinedBatchSampler(LABELS, 16, 2, lag=lag)


def test_embeddings_that_are_not_finite_are_refused_on_both_sides():
    sampler, history = make_sampler(), LaggedMemory(20, DIM, LAG)
    sampler.begin(0, history)
    batches = iter(sampler)
    batch = next(batches)
    message = message_of(batch)
    message.embeddings[2, 1] = np.nan
    broken = batch.labels[2]
    sampler.feed.put(message)
    history.add(message)
    with pytest.raises(ValueError, match=f"`embeddings` must be finite.* the first is class {broken}"):
        list(batches)
    for step in range(1, LAG - 1):
        history.add(StepEmbeddings(step, [0], [[0.0] * DIM]))
    with pytest.raises(ValueError, match=f"the first is class {broken}"):
        history.add(StepEmbeddings(LAG - 1, [0], [[0.0] * DIM]))
