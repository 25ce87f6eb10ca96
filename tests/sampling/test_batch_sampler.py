import collections
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profs_tf.sampling.batch_sampler import BatchSampler

sizes_strategy = st.lists(st.integers(1, 9), min_size=1, max_size=20)


def shuffled_labels(sizes):
    return np.random.default_rng(1).permutation(np.repeat(np.arange(len(sizes)), sizes))


@settings(deadline=None, max_examples=200)
@given(
    sizes_strategy,
    st.integers(1, 6),
    st.integers(1, 12),
    st.integers(0, 10**6),
    st.sampled_from(["uniform", "cyclic"]),
)
def test_batch_keeps_its_contract(sizes, images_per_class, classes, step, draw):
    labels = shuffled_labels(sizes)
    sampler = BatchSampler(labels, classes * images_per_class, images_per_class, representative_draw=draw)
    batch = sampler.batch(step)
    in_batch = min(classes, len(sizes))
    assert len(batch.indices) == in_batch * images_per_class == sampler.batch_size
    np.testing.assert_array_equal(labels[batch.indices], batch.labels)
    # R' first: distinct classes, each the representative of the current projection.
    heads = batch.labels[:in_batch]
    assert len(set(heads)) == in_batch
    k = step // sampler.steps_per_projection
    np.testing.assert_array_equal(batch.indices[:in_batch], sampler.representatives(k)[heads])
    np.testing.assert_array_equal(batch.is_representative, np.arange(sampler.batch_size) < in_batch)
    for head, label in zip(batch.indices, heads):
        members = batch.indices[batch.labels == label]
        examples = members[members != head]
        assert len(members) == images_per_class
        if sizes[label] > 1:
            assert len(examples) == images_per_class - 1
            counts = collections.Counter(examples)
            others = sizes[label] - 1
            # Nothing is drawn a second time before everything was drawn once.
            assert not counts or max(counts.values()) == -(-(images_per_class - 1) // others)
            assert len(counts) == min(others, images_per_class - 1)


@settings(deadline=None, max_examples=50)
@given(sizes_strategy, st.integers(0, 2**62 - 1), st.integers(0, 10**9))
def test_batch_is_a_pure_function_of_seed_and_step(sizes, seed, step):
    labels = shuffled_labels(sizes)
    once = BatchSampler(labels, 8, 2, seed).batch(step)
    sampler = BatchSampler(labels, 8, 2, seed)
    sampler.batch(step + 17)
    for expected, got in zip(once, sampler.batch(step)):
        np.testing.assert_array_equal(expected, got)


def test_defaults_draw_the_batches_of_the_first_version():
    # By the sampler as it was before it had options to draw otherwise.
    labels = np.repeat(np.arange(40), np.arange(40) % 7 + 1)
    sampler = BatchSampler(labels, 32, 4, seed=5)
    assert sampler.steps_per_projection == 30
    representatives = {
        0: [32, 140, 86, 114, 57, 112, 40, 95],
        7: [149, 103, 5, 56, 0, 46, 115, 40],
        100: [139, 151, 140, 29, 10, 66, 97, 84],
    }
    examples = {
        0: "33 31 33 140 140 140 85 85 85 113 113 113 58 58 58 112 112 112 41 38 42 94 96 97",
        7: "148 147 146 104 100 101 3 4 4 56 56 56 0 0 0 48 44 45 116 117 117 38 41 39",
        100: "133 135 137 154 153 152 140 140 140 30 30 30 12 11 14 69 68 70 96 94 98 84 84 84",
    }
    for step, first in representatives.items():
        expected = first + [int(index) for index in examples[step].split()]
        np.testing.assert_array_equal(sampler.batch(step).indices, expected)


def test_iterating_begins_at_first_step():
    sampler = BatchSampler(np.repeat(np.arange(9), 3), 6)
    sampler.first_step = 5
    steps = [batch.step for batch in itertools.islice(sampler, 3)]
    assert steps == [5, 6, 7]


@pytest.mark.parametrize(
    "labels",
    [
        ["b", "a", "b", "a", "ü", "ü"],
        [-5, 2**40, -5, 2**40, 0, 0],
        np.array([3, 9, 3, 9, 7, 7], np.uint64),
    ],
)
def test_labels_of_any_kind_are_indexed_anew(labels):
    sampler = BatchSampler(labels, 6, 2)
    batch = sampler.batch(0)
    assert sorted(set(batch.labels)) == [0, 1, 2]
    np.testing.assert_array_equal(sampler.table.class_labels[batch.labels], np.asarray(labels)[batch.indices])


def test_examples_are_drawn_uniformly_and_without_the_representative():
    sampler = BatchSampler(np.zeros(6, int), 3, 3, steps_per_projection=10**9)
    representative = sampler.representatives(0)[0]
    pairs = collections.Counter(tuple(sorted(sampler.batch(t).indices[1:])) for t in range(4000))
    assert all(representative not in pair for pair in pairs)
    assert len(pairs) == 10
    expected = 400
    assert (
        sum((n - expected) ** 2 / expected for n in pairs.values()) < 35
    )  # chi-squared, 9 degrees of freedom


def test_classes_left_out_of_an_epoch_are_as_many_as_stated():
    num_classes, images = 200, 4
    sampler = BatchSampler(np.repeat(np.arange(num_classes), images), 40, 2)
    missing = [
        num_classes - len(set(np.concatenate([sampler.batch(t).labels for t in range(e * 20, e * 20 + 20)])))
        for e in range(40)
    ]
    stated = num_classes * (1 - sampler.classes_per_batch / num_classes) ** len(sampler)
    assert len(sampler) == 20
    assert np.mean(missing) == pytest.approx(stated, abs=2.0)


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 30), st.integers(1, 12), st.integers(0, 2**40), st.integers(0, 2**62 - 1))
def test_rounds_visit_each_class_once_before_any_again(num_classes, classes, round_index, seed):
    labels = np.repeat(np.arange(num_classes), 3)
    sampler = BatchSampler(labels, classes * 2, 2, seed, class_draw="rounds")
    classes = sampler.classes_per_batch
    steps = round_index * -(-num_classes // classes) + np.arange(-(-num_classes // classes))
    batches = [sampler.batch(int(step)) for step in steps]
    visits = np.concatenate([batch.labels[:classes] for batch in batches])
    # The first L visits are all classes, once each; the rest fill up the last batch with others.
    np.testing.assert_array_equal(np.sort(visits[:num_classes]), np.arange(num_classes))
    assert len(set(batches[-1].labels[:classes])) == classes
    for batch in batches:
        np.testing.assert_array_equal(labels[batch.indices], batch.labels)
    again = BatchSampler(labels, sampler.batch_size, 2, seed, class_draw="rounds")
    np.testing.assert_array_equal(again.batch(int(steps[-1])).indices, batches[-1].indices)


def test_rounds_are_shuffled_and_filled_up_uniformly():
    sampler = BatchSampler(np.repeat(np.arange(10), 2), 14, 2, seed=4, class_draw="rounds")
    heads = np.array([sampler.batch(t).labels[:7] for t in range(2000)])
    # A round is two batches: 7 classes, then the other 3 and 4 of the 7.
    for part in (heads[0::2], heads[1::2, :3], heads[1::2, 3:]):
        counts = np.bincount(part.ravel(), minlength=10)
        expected = part.size / 10
        assert np.sum((counts - expected) ** 2 / expected) < 28  # chi-squared, 9 degrees of freedom


def test_length_is_the_steps_that_show_as_many_images_as_there_are():
    assert len(BatchSampler(np.repeat(np.arange(10), 13), 8)) == 17


def test_ordinary_batches_have_fresh_representatives_and_every_image_a_query():
    sampler = BatchSampler(np.zeros(50, int), 2, 2, steps_per_projection=1, queries="all")
    batches = [sampler.batch(t) for t in range(30)]
    assert len({batch.indices[0] for batch in batches}) > 10
    assert all((batch.is_representative == 1).all() for batch in batches)


def test_single_image_class_meets_itself():
    batch = BatchSampler([0, 1, 1], 6, 3).batch(0)
    assert list(batch.indices[batch.labels == 0]) == [0, 0, 0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": -1}, "`seed` must be a whole number >= 0, got -1"),
        ({"seed": 2**62}, r"`seed` must be below 2\*\*62, got 4611686018427387904"),
        ({"representative_draw": "x"}, "`representative_draw` must be one of uniform, cyclic, got 'x'"),
        ({"class_draw": "x"}, "`class_draw` must be one of independent, rounds, got 'x'"),
        ({"queries": "x"}, "`queries` must be one of representatives, all, got 'x'"),
        ({"steps_per_projection": 2.7}, r"`steps_per_projection` must be a whole number >= 1, got 2\.7"),
        ({"representative_uses": 1.5}, r"`representative_uses` must be a whole number >= 1, got 1\.5"),
        ({"batch_size": 4.0}, r"`batch_size` must be a whole number >= 1, got 4\.0"),
        ({"images_per_class": 2.0}, r"`images_per_class` must be a whole number >= 1, got 2\.0"),
        ({"seed": 1.5}, r"`seed` must be a whole number >= 0, got 1\.5"),
        ({"seed": True}, "`seed` must be a whole number >= 0, got True"),
        ({"steps_per_projection": 0}, "`steps_per_projection` must be a whole number >= 1, got 0"),
        ({"batch_size": 7}, "`batch_size` must be a multiple"),
        ({"labels": []}, "`labels` must be one-dimensional and not empty"),
        ({"labels": [[1, 0]]}, r"`labels` must be one-dimensional and not empty, got shape \[1, 2\]"),
        ({"labels": [0.5, 1.0]}, "`labels` must be integers or strings, got dtype float64"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        BatchSampler(**{"labels": [0, 0, 1, 1], "batch_size": 4, **arguments})


def test_negative_step_is_refused():
    with pytest.raises(ValueError, match="`step` must be >= 0, got -1"):
        BatchSampler([0, 0], 2).batch(-1)


def test_numpy_integers_are_as_good_as_python_s():
    labels = np.repeat(np.arange(5), 4)
    ours = BatchSampler(labels, np.int32(6), np.uint8(2), seed=np.int64(3), steps_per_projection=np.int16(4))
    np.testing.assert_array_equal(
        ours.batch(9).indices, BatchSampler(labels, 6, 2, seed=3, steps_per_projection=4).batch(9).indices
    )
