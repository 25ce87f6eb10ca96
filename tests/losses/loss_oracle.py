"""Random batches; comparison of a loss with its reference in value, and in gradient by finite differences."""

import functools
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from hypothesis import settings
from hypothesis import strategies as st

from tests.losses.loss_cases import PAIRWISE, as_mask, build, value_and_gradients
from tests.losses.loss_reference import distance_weighted_negatives

MOST_IMAGES = 24

# The same examples in every run: a value within rounding of a jump (a hinge that is counted or not) would
# otherwise fail once in a few hundred runs.
oracle_settings = settings(max_examples=100, derandomize=True, deadline=None, print_blob=False)
# Of variants of a loss, and of losses whose loops are slow.
variant_settings = settings(oracle_settings, max_examples=40)


class RandomBatch(NamedTuple):
    embeddings: np.ndarray  # float32, all different
    repeated: np.ndarray  # the same with some rows in the place of others, or the same
    labels: np.ndarray
    mask: np.ndarray  # float32
    rng: np.random.Generator


@st.composite
def random_batches(draw):
    """B 2..24, classes 1..B, D 2..64; unit length or not; a query mask of any kind; duplicates at will."""
    size = draw(st.integers(2, MOST_IMAGES))
    num_classes = draw(st.integers(1, size))
    dimensions = draw(st.integers(2, 64))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    labels = rng.integers(0, num_classes, size)
    embeddings = rng.normal(size=[size, dimensions])
    if draw(st.booleans()):
        embeddings += 2.0 * rng.normal(size=[num_classes, dimensions])[labels]
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    embeddings *= draw(st.sampled_from([1.0, 1.0, 0.3, 3.0]))
    rows = np.arange(size)
    if draw(st.booleans()):
        rows[rng.integers(0, size, size // 3)] = rng.integers(0, size, size // 3)
    masks = {
        "ones": np.ones(size),
        "random": rng.integers(0, 2, size),
        "one per class": np.isin(np.arange(size), np.unique(labels, return_index=True)[1]),
    }
    mask = masks[draw(st.sampled_from(sorted(masks)))].astype(np.float32)
    embeddings = embeddings.astype(np.float32)
    return RandomBatch(embeddings, embeddings[rows], labels, mask, rng)


@functools.cache
def _pairwise_case(name):
    """The case, its loss as a graph of unknown shapes: quicker than 100 eager calls, and one more check."""
    case = build(name, num_classes=MOST_IMAGES)
    rows, one_per_row = [None, None], [None]
    labels = tf.TensorSpec(one_per_row, tf.int64)
    mask = tf.TensorSpec(one_per_row, tf.float32)

    @tf.function(input_signature=[labels, tf.TensorSpec(rows, tf.float32), mask], autograph=False)
    def value(y, embeddings, q):
        return case.loss(y, embeddings, q)

    @tf.function(input_signature=[labels, tf.TensorSpec(rows, tf.float64), mask], autograph=False)
    def value_and_slope(y, embeddings, q):
        value, gradients = value_and_gradients(case.loss, y, embeddings, q)
        return value, gradients[0]

    return case, value, value_and_slope


def _case(name, batch):
    if name in PAIRWISE:
        return _pairwise_case(name)
    # Centers and proxies have the dimension of the embeddings: a new loss for every batch, called eagerly.
    case = build(name, num_classes=max(2, batch.labels.max() + 1), dimensions=batch.embeddings.shape[1])

    def value_and_slope(y, embeddings, q):
        value, gradients = value_and_gradients(case.loss, y, embeddings, q)
        return value, gradients[0]

    return case, case.loss, value_and_slope


def _reference(name, case, batch, start):
    """The reference as a function of the embeddings [B, D] float64.

    What distance-weighted mining draws is fixed to its draw at ``start``, in the dtype of that.
    """
    labels, mask = batch.labels.tolist(), as_mask(batch.mask, len(batch.labels))
    options = {}
    if name == "margin_distance_weighted":
        options["chosen"] = distance_weighted_negatives(start, labels, mask, case.loss.seed)
    return functools.partial(case.reference, y=labels, q=mask, **options)


def _slope(function, start, direction):
    """The derivative by central differences.

    A hinge or a change of choice within the step makes two steps disagree; the step shrinks until they agree.
    """
    for step in (1e-5, 1e-6, 1e-7, 1e-8):
        coarse, fine = (
            (function(start + h * direction) - function(start - h * direction)) / (2 * h)
            for h in (step, step / 4)
        )
        if abs(coarse - fine) <= 3e-5 * max(1.0, abs(fine)):
            return fine
    raise AssertionError(f"No derivative: {coarse} and {fine} at steps {step} and {step / 4}.")


def check_against_loops(name, batch):
    """Value to 1e-5 in float32; to 1e-9, and gradient along a random direction to 1e-4, in float64.

    Only the value is compared with repeated rows, where distances and choices have no derivative.
    """
    case, value_of, value_and_slope_of = _case(name, batch)
    value = value_of(batch.labels, batch.repeated, batch.mask)
    assert value.dtype == tf.float32
    expected = _reference(name, case, batch, batch.repeated)(batch.repeated.astype(np.float64))
    np.testing.assert_allclose(float(value), expected, rtol=1e-5, atol=1e-5)

    wide = batch.embeddings.astype(np.float64)
    reference = _reference(name, case, batch, wide)
    value, gradient = value_and_slope_of(batch.labels, tf.constant(wide), batch.mask)
    assert value.dtype == tf.float64
    np.testing.assert_allclose(float(value), reference(wide), rtol=1e-9, atol=1e-9)
    direction = batch.rng.normal(size=wide.shape)
    direction /= np.linalg.norm(direction)
    expected = _slope(reference, wide, direction)
    np.testing.assert_allclose(np.sum(gradient.numpy() * direction), expected, rtol=1e-4, atol=1e-4)
