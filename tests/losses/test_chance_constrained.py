import numpy as np
import pytest
import tensorflow as tf

import profs_tf as profs
from profs_tf import losses
from tests.losses.loss_cases import DIMENSIONS, unit_rows

LABELS = np.repeat(np.arange(4), 3)


def make_loss(pairs, **options):
    options = {"prototypes_per_class": 2, "ordinary_weight": 0.3, **options}
    return losses.ChanceConstrainedLoss(pairs, 4, DIMENSIONS, **options)


@pytest.mark.parametrize(
    "pairs",
    [
        losses.ContrastiveLoss(),
        losses.ContrastiveLoss(mining="all"),
        losses.TripletLoss(mining="semi_hard"),
        losses.MarginLoss(mining="all"),
    ],
    ids=["contrastive", "contrastive_all", "triplet", "margin"],
)
def test_is_the_loss_against_prototypes_and_some_of_the_ordinary_loss(pairs):
    """The first part is a batch with the prototypes in it, of which only the images are queries."""
    loss, E = make_loss(pairs), unit_rows(np.random.default_rng(0), 12)
    # Stored vectors need not have unit length.
    vectors = np.random.default_rng(1).normal(size=[4, 2, DIMENSIONS])
    loss.prototypes.assign(3.0 * vectors)
    vectors = vectors / np.linalg.norm(vectors, axis=2, keepdims=True)
    apart = type(pairs).from_config({**pairs.get_config(), "representative_pairs": False})
    y = np.concatenate([LABELS, np.repeat(np.arange(4), 2)])
    both = np.concatenate([E, vectors.reshape(8, DIMENSIONS).astype(np.float32)])
    against = apart(y, both, np.arange(20) < 12)
    if getattr(pairs, "mining", "") == "hard":
        # Without a mask it mines in the whole batch.
        against = hard_of_the_batch(E, LABELS, both[12:], y[12:])
    np.testing.assert_allclose(loss(LABELS, E), against + 0.3 * pairs(LABELS, E), rtol=1e-5)
    np.testing.assert_allclose(loss(LABELS[:, None], E), loss(LABELS, E), rtol=1e-6)


def hard_of_the_batch(E, y, others, other_labels):
    """The contrastive loss of all positive pairs and the as many closest negative ones."""
    distances = np.linalg.norm(E[:, None] - others, axis=2)
    same = y[:, None] == other_labels
    negatives = np.sort(distances[~same])[: same.sum()]
    terms = [*np.square(distances[same]), *np.square(np.maximum(1.0 - negatives, 0.0))]
    return np.mean(terms)


def test_prototypes_learn_as_the_network_and_a_boundary_at_its_own_rate():
    embedder = tf.keras.Sequential([tf.keras.Input([5]), tf.keras.layers.Dense(DIMENSIONS, name="head")])
    model, loss = profs.ProfsModel(embedder, 0.0), make_loss(losses.MarginLoss())
    optimizer = profs.head_adam(embedder, 1e-3)
    model.compile(optimizer, loss)
    assert {variable.name for variable in loss.trainable_variables} == {"prototypes:0", "boundary:0"}
    assert optimizer.multiplier_of(loss.prototypes) == 1.0
    assert optimizer.multiplier_of(loss.loss.boundary) == pytest.approx(0.5)


def test_configuration_round_trip():
    loss = make_loss(losses.TripletLoss(margin=0.5), seed=3)
    again = tf.keras.losses.deserialize(tf.keras.losses.serialize(loss))
    assert (again.loss.margin, again.prototypes_per_class, again.ordinary_weight) == (0.5, 2, 0.3)
    np.testing.assert_array_equal(again.prototypes, loss.prototypes)
    assert not make_loss(losses.MultiSimilarityLoss(), ordinary_weight=0.0).ordinary_weight


def test_loss_without_candidates_and_labels_out_of_range_are_refused():
    with pytest.raises(ValueError, match="`loss` must be a loss over pairs for CCP, got proxy_nca_loss"):
        make_loss(losses.ProxyNCALoss(4, DIMENSIONS))
    for other in ("contrastive", losses.ContrastiveLoss):
        with pytest.raises(ValueError, match="`loss` must be a loss over pairs for CCP, got .*ontrastive"):
            make_loss(other)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"`y_true` must be whole numbers 0 \.\.\. 3"):
        make_loss(losses.ContrastiveLoss())([4, 4], np.ones([2, DIMENSIONS], np.float32))
