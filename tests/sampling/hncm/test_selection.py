import time
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profs_tf.sampling.hncm import memory as memory_module
from profs_tf.sampling.hncm.memory import ClassMemory
from profs_tf.sampling.hncm.selection import ClassMining

GROUPS, GROUP_SIZE = 40, 5


def filled_memory(embeddings, unseen=()):
    memory = ClassMemory(*embeddings.shape)
    seen = np.setdiff1d(np.arange(len(embeddings)), unseen)
    memory.update(seen, embeddings[seen])
    return memory


def grouped_embeddings(seed=0):
    """200 classes in 40 tight groups of 5: class c is in group c % 40."""
    random = np.random.default_rng(seed)
    centers = random.normal(size=(GROUPS, 16))
    return (np.tile(centers, (GROUP_SIZE, 1)) + 0.01 * random.normal(size=(200, 16))).astype(np.float32)


def nearest_by_loop(embeddings, seen, order, count, hard):
    """The strategy "nearest", class by class; `order` is the random order of all classes."""
    batch, order = [], list(order)
    while len(batch) < count:
        seed = next(c for c in order if c not in batch)
        batch.append(seed)
        others = [c for c in range(len(embeddings)) if c not in batch and seen[c]] if seen[seed] else []
        others.sort(key=lambda c: (np.linalg.norm(embeddings[c].astype(np.float64) - embeddings[seed]), c))
        wanted = min(hard, count - len(batch))
        batch += others[:wanted]
        for _ in range(wanted - len(others[:wanted])):
            batch.append(next(c for c in order if c not in batch))
    return batch


def greedy_by_loop(embeddings, seen, order, count):
    batch, order = [], list(order)
    while len(batch) < count:
        reachable = [
            (np.linalg.norm(embeddings[c].astype(np.float64) - embeddings[b]), c)
            for b in batch
            if seen[b]
            for c in range(len(embeddings))
            if c not in batch and seen[c]
        ]
        batch.append(min(reachable)[1] if reachable else next(c for c in order if c not in batch))
    return batch


@settings(max_examples=150)
@given(st.integers(1, 30), st.integers(1, 6), st.integers(0, 10**6), st.floats(0, 1), st.data())
def test_equals_the_loop(num_classes, hard, seed, share_unseen, data):
    random = np.random.default_rng(seed)
    # Whole numbers far apart: distances differ by more than rounding, or not at all.
    embeddings = random.permutation(num_classes * 40)[: num_classes * 2].reshape(-1, 2).astype(np.float32)
    unseen = np.flatnonzero(random.random(num_classes) < share_unseen)
    count = data.draw(st.integers(1, num_classes))
    memory = filled_memory(embeddings, unseen)
    order = np.random.default_rng(seed + 1).permutation(num_classes)
    # In one block; in blocks of some rows; in the smallest.
    for in_one_thread in (2**18, 8 * embeddings.size, 0):
        with mock.patch.object(memory_module, "_ONE_THREAD", in_one_thread):
            got = ClassMining(hard).choose(np.random.default_rng(seed + 1), memory, count)
        assert got.tolist() == nearest_by_loop(embeddings, memory.seen, order, count, hard)
    got = ClassMining(hard, "greedy").choose(np.random.default_rng(seed + 1), memory, count)
    assert got.tolist() == greedy_by_loop(embeddings, memory.seen, order, count)


@pytest.mark.parametrize(
    ("num_classes", "dimension", "strategy"),
    [(100, 512, "nearest"), (561, 128, "greedy"), (11318, 512, "nearest")],
)
def test_no_thread_is_left_waiting_busily(num_classes, dimension, strategy):
    """A thread of OpenBLAS, once woken, takes 50 to 100 ms of CPU time before it sleeps again."""
    random = np.random.default_rng(0)
    memory = filled_memory(random.standard_normal([num_classes, dimension]).astype(np.float32))
    mining = ClassMining(3, strategy)

    def processor_seconds(pause):
        begin = time.process_time()
        for _ in range(3):
            mining.choose(random, memory, 64)
            time.sleep(pause)
        return time.process_time() - begin

    processor_seconds(0.0)
    # What a pause adds nothing does in it.
    assert processor_seconds(0.2) < processor_seconds(0.0) + 3 * 0.03


def neighbors_found(batches):
    """The mean number of same-group classes among the three that follow each seed."""
    found = []
    for classes in batches:
        for seed in range(0, len(classes), 4):
            group = classes[seed] % GROUPS
            found.append(sum(c % GROUPS == group for c in classes[seed + 1 : seed + 4]))
    return np.mean(found)


def test_mined_batches_hold_the_neighbors():
    memory = filled_memory(grouped_embeddings())
    mined = [ClassMining(3).choose(np.random.default_rng(t), memory, 32) for t in range(100)]
    assert neighbors_found(mined) > 2.8
    drawn = [np.random.default_rng(t).choice(200, 32, replace=False) for t in range(100)]
    assert neighbors_found(drawn) == pytest.approx(3 * 4 / 199, abs=0.03)


def test_four_of_a_group_come_when_four_are_asked_for():
    memory = filled_memory(grouped_embeddings())
    same_group = []
    for t in range(100):
        classes = ClassMining(4).choose(np.random.default_rng(t), memory, 40)
        for seed in range(0, 40, 5):
            same_group.append(sum(classes[seed + 1 : seed + 5] % GROUPS == classes[seed] % GROUPS))
    assert np.mean(same_group) >= 3.0


def test_an_empty_memory_gives_an_ordinary_batch():
    memory = ClassMemory(50, 4)
    for strategy in ("nearest", "greedy"):
        classes = ClassMining(3, strategy).choose(np.random.default_rng(7), memory, 20)
        assert classes.tolist() == np.random.default_rng(7).permutation(50)[:20].tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"hard_classes_per_seed": 2.5}, "`hard_classes_per_seed` must be a whole number >= 1, got 2.5"),
        ({"hard_classes_per_seed": 0}, "`hard_classes_per_seed` must be a whole number >= 1, got 0"),
        ({"strategy": "hardest"}, "`strategy` must be one of nearest, greedy, got 'hardest'"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ClassMining(**arguments)
