import itertools

import numpy as np
import pytest

from profs_tf.sampling.batch_sampler import BatchSampler
from profs_tf.sampling.plateau.projections import LaggedLosses, StepLoss
from profs_tf.sampling.plateau.sampler import PlateauBatchSampler

LABELS = np.repeat(np.arange(20), 3)
LAG = 3


def make_sampler(**options):
    return PlateauBatchSampler(LABELS, 16, 2, seed=5, patience=1, lag=LAG, **options)


def loss_of(batch):
    return float(np.sin(batch.indices).sum())


def run(num_steps, history=None, first_step=0, **options):
    sampler = make_sampler(**options)
    history = history or LaggedLosses(sampler.rule, LAG)
    sampler.begin(first_step, history)
    batches = []
    for batch in itertools.islice(sampler, num_steps):
        assert batch.projection_index == history.memory.index
        batches.append(batch)
        message = StepLoss(batch.step, loss_of(batch))
        history.add(message)
        sampler.feed.put(message)
    return batches, history


def assert_same(one, other):
    for a, b in zip(one, other):
        np.testing.assert_array_equal(a, b)


def test_batches_are_the_plain_sampler_s_of_the_projection():
    batches, _ = run(120)
    plain = BatchSampler(LABELS, 16, 2, seed=5)
    lengths = np.bincount([batch.projection_index for batch in batches])[:-1]
    # Stretches of ceil(20 / 8) steps: at least two of them, until the last one's loss is known.
    assert lengths.min() >= 2 * 3 - 1 + LAG
    assert len(set(lengths.tolist())) > 1
    for batch in batches:
        # The classes do not depend on the projection, the representatives on nothing else.
        np.testing.assert_array_equal(batch.labels, plain.batch(batch.step).labels)
        expected = plain.representatives(batch.projection_index)[batch.labels[:8]]
        np.testing.assert_array_equal(batch.indices[:8], expected)


@pytest.mark.parametrize("stop", [1, 8, 30])
def test_resumed_equals_never_stopped(stop):
    expected, _ = run(60)
    first, history = run(stop)
    restored = LaggedLosses(make_sampler().rule, LAG)
    restored.restore(history.arrays())
    second, _ = run(60 - stop, restored, stop)
    for one, other in zip(expected, first + second):
        assert_same(one, other)


def test_the_longest_projection_follows_from_the_rule_of_the_paper():
    # ceil(60 * 20 / 8), ten times 15.
    assert make_sampler().steps_per_projection == make_sampler().rule.longest == 150
    assert make_sampler(steps_per_projection=7).rule.longest == 7
    with pytest.raises(
        ValueError, match="`steps_per_projection` must be above 6 steps, 2 stretches of 3, got 6"
    ):
        make_sampler(steps_per_projection=6)
