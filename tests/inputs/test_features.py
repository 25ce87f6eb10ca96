"""Batches of features: the sampler's rows, each in a view that step and position decide."""

import itertools

import numpy as np
import pytest

from profs_tf.inputs.features import FeatureList, feature_pipeline
from profs_tf.sampling.batch_sampler import BatchSampler

LABELS = np.arange(40) // 4


def features_of(num_views):
    """Features that tell their view and image."""
    views, images = np.meshgrid(np.arange(num_views), np.arange(40), indexing="ij")
    return FeatureList(np.stack([views, images], axis=-1).astype(np.float32), LABELS, tuple("abcdefghij"))


def sampler_from(step, seed=0):
    sampler = BatchSampler(LABELS, 8, seed=seed)
    sampler.first_step = step
    return sampler


def first_batches(count, num_views=2, step=0, seed=0):
    pipeline = feature_pipeline(features_of(num_views), sampler_from(step, seed))
    return [tuple(part.numpy() for part in batch) for batch in itertools.islice(pipeline, count)]


def test_rows_are_those_of_the_sampler():
    for step, (features, labels, is_representative) in enumerate(first_batches(5)):
        batch = sampler_from(0).batch(step)
        np.testing.assert_array_equal(features[:, 1], batch.indices)
        np.testing.assert_array_equal(labels, batch.labels)
        np.testing.assert_array_equal(is_representative, batch.is_representative)


def test_both_views_are_drawn_alike_and_differently_in_each_step():
    views = np.array([features[:, 0] for features, _, _ in first_batches(200)])
    assert views.mean() == pytest.approx(0.5, abs=0.05)
    assert np.ptp(views.mean(axis=0)) < 0.3
    assert len(np.unique(views, axis=0)) > 100


def test_a_batch_is_a_function_of_seed_and_step():
    for one, other in zip(first_batches(6)[4:], first_batches(2, step=4)):
        for left, right in zip(one, other):
            np.testing.assert_array_equal(left, right)
    assert any((one[0] != other[0]).any() for one, other in zip(first_batches(3), first_batches(3, seed=1)))


def test_one_view_is_always_that_one():
    assert all((features[:, 0] == 0).all() for features, _, _ in first_batches(3, num_views=1))


def test_a_sampler_of_other_images_is_refused():
    with pytest.raises(ValueError, match=r"`sampler` must be made .* it knows 20 images, the list has 40\."):
        feature_pipeline(features_of(1), BatchSampler(LABELS[:20], 8))


def test_representatives_may_keep_their_view_for_a_projection():
    sampler = BatchSampler(LABELS, 8, seed=3, steps_per_projection=5)
    pipelines = (feature_pipeline(features_of(2), sampler, 2, fixed) for fixed in (True, False))
    seen = {}
    for step, (fixed, free) in enumerate(itertools.islice(zip(*pipelines), 200)):
        for (view, _), label in zip(fixed[0].numpy()[:4], fixed[1].numpy()):
            assert seen.setdefault((step // 5, label), view) == view
        np.testing.assert_array_equal(fixed[0][4:], free[0][4:])
        np.testing.assert_array_equal(fixed[0][:, 1], free[0][:, 1])
    assert np.mean(list(seen.values())) == pytest.approx(0.5, abs=0.1)
