"""The cross-batch memory against a list of earlier images and loops over their pairs with the queries."""

import re

import numpy as np
import pytest
import tensorflow as tf

from profs_tf import losses
from profs_tf.losses.batch import Candidates
from tests.losses.loss_cases import DIMENSIONS, identity_model, unit_rows
from tests.losses.memory_reference import REFERENCES
from tests.models import tiny

SIZE, WEIGHT, START = 11, 0.5, 1


def make_loss(name="contrastive", **options):
    options = {"embedding_dim": DIMENSIONS, "size": SIZE, "start_step": START, "weight": WEIGHT, **options}
    return losses.CrossBatchMemory(losses.get(name), **options)


def batches():
    """Labels, embeddings and query masks that fill the memory in part, wrap around, and replace it whole."""
    rng = np.random.default_rng(0)
    for size in (6, 6, 4, 6, 13, 6):
        y = rng.integers(0, 4, size)
        mask = (rng.permutation(size) < size // 2).astype(np.float32)
        yield y, unit_rows(rng, size).astype(np.float64), mask


def training_step(loss, y, E, mask):
    E = tf.convert_to_tensor(E)
    with tf.GradientTape() as tape:
        tape.watch(E)
        value = loss.training_step(y, E, mask)
    return value, tape.gradient(value, E)


def test_every_loss_that_takes_a_memory_has_its_loops():
    assert list(REFERENCES) == [n for n in losses.names() if losses.loss_class(n).takes_candidates]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", REFERENCES)
def test_steps_agree_with_a_list_of_earlier_images(name, masked):
    loss, (of_batch, of_memory) = make_loss(name), REFERENCES[name]
    rng, stored = np.random.default_rng(1), []
    for step, (y, E, mask) in enumerate(batches()):
        q = mask.tolist() if masked else [1] * len(y)
        entries = stored if step >= START else []
        M = np.array([entry for entry, _ in entries]).reshape([-1, DIMENSIONS])
        labels = [label for _, label in entries]

        y = y.tolist()

        def expected(E, y=y, q=q, M=M, labels=labels):
            return of_batch(E, y, q) + WEIGHT * of_memory(E, y, q, M, labels)

        value, gradient = training_step(loss, y, E, mask if masked else None)
        np.testing.assert_allclose(value, expected(E), rtol=1e-9)
        direction = rng.normal(size=E.shape) * 1e-7
        slope = (expected(E + direction) - expected(E - direction)) / 2
        np.testing.assert_allclose(np.sum(gradient * direction), slope, rtol=1e-4, atol=1e-13)
        stored = [*stored, *zip(E.astype(np.float32), y)][-SIZE:]
        filled = SIZE - len(stored)
        np.testing.assert_array_equal(loss.stored_embeddings[filled:], [entry for entry, _ in stored])
        np.testing.assert_array_equal(loss.stored_labels[filled:], [label for _, label in stored])
        assert int(loss.num_stored) == len(stored)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("contrastive", {"mining": "all"}),
        ("contrastive", {"mining": "hard_per_query"}),
        ("triplet", {"mining": "semi_hard"}),
        ("margin", {"mining": "distance_weighted", "seed": 3}),
        ("margin", {"mining": "all", "boundary_per_class": True, "num_classes": 4}),
        ("lifted_structure", {}),
    ],
)
def test_queries_and_candidates_are_a_batch_of_queries_and_others(name, options):
    """If the pairs of two queries do not count: the same pairs, hence the same value and gradient."""
    loss = losses.get(name, **options, representative_pairs=False)
    rng = np.random.default_rng(0)
    y, E, is_query = rng.integers(0, 4, 18), tf.constant(unit_rows(rng, 18)), np.arange(18) < 7
    present = tf.constant(np.arange(11) < 9)

    def of_candidates(batch):
        queries = batch._replace(embeddings=batch.embeddings[:7], labels=batch.labels[:7])
        candidates = Candidates(batch.embeddings[7:], batch.labels[7:], present)
        return loss._batch_loss(queries._replace(is_query=batch.is_query[:7], candidates=candidates))

    with tf.GradientTape(persistent=True) as tape:
        tape.watch(E)
        value = loss._value(y, E, is_query, of_candidates)
        expected = loss(y[:16], E[:16], is_query[:16])
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    assert float(value) > 0.0
    np.testing.assert_allclose(tape.gradient(value, E), tape.gradient(expected, E), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("options", [{}, {"jit_compile": True}], ids=["graph", "xla"])
def test_compiled_steps_equal_eager_ones(options):
    loss, compiled = make_loss(), make_loss()
    unknown = [tf.TensorSpec([None], tf.int64), tf.TensorSpec([None, DIMENSIONS], tf.float64)]
    signature = {} if options else {"input_signature": [*unknown, tf.TensorSpec([None], tf.float32)]}

    @tf.function(autograph=False, **signature, **options)
    def step(y, E, mask):
        return training_step(compiled, y, E, mask)

    for y, E, mask in list(batches())[:3]:
        one, other = training_step(loss, y, E, mask), step(tf.constant(y), tf.constant(E), tf.constant(mask))
        for expected, got in zip(one, other):
            np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-9)
    for expected, got in zip(loss.variables, compiled.variables):
        np.testing.assert_array_equal(got, expected)


def test_a_batch_that_is_not_finite_leaves_the_memory_as_it_was():
    loss, spared = make_loss(), make_loss()
    for number, (y, E, mask) in enumerate(batches()):
        expected = spared.training_step(y, E, mask)
        np.testing.assert_array_equal(loss.training_step(y, E, mask), expected)
        if not number:
            assert np.isnan(loss.training_step(y, np.where(np.arange(len(E))[:, None] == 1, np.inf, E), mask))
    for one, other in zip(loss.variables, spared.variables):
        if one is not loss.steps:
            np.testing.assert_array_equal(one, other)
    assert int(loss.steps) == int(spared.steps) + 1


def test_half_precision_is_stored_as_float32():
    loss = make_loss("multi_similarity")
    for y, E, mask in batches():
        value = loss.training_step(y.astype(np.float32), tf.cast(E, tf.bfloat16), mask)
        assert value.dtype == tf.float32
    np.testing.assert_array_equal(
        loss.stored_embeddings[-1], tf.cast(tf.cast(E[-1], tf.bfloat16), tf.float32)
    )


def test_evaluation_neither_reads_nor_changes_the_memory():
    loss, plain = make_loss("margin"), losses.MarginLoss()
    for y, E, mask in batches():
        loss.training_step(y, E, mask)
    before = [variable.numpy() for variable in loss.variables]
    assert float(loss(y, E, mask)) == float(plain(y, E, mask))
    for expected, got in zip(before, loss.variables):
        np.testing.assert_array_equal(got, expected)
    assert [variable.name for variable in loss.trainable_variables] == ["boundary:0"]
    assert loss.variable_learning_rate == plain.learning_rate


def test_a_stock_keras_model_evaluates_and_cannot_train():
    model = identity_model()
    model.compile("sgd", loss=make_loss())
    y, E, mask = next(batches())
    assert model.evaluate(E, y, sample_weight=mask, verbose=0) == pytest.approx(
        float(losses.ContrastiveLoss()(y, E, mask)), rel=1e-6
    )
    with pytest.raises(
        ValueError, match="a stock Keras model, which does not tell its loss whether it trains"
    ):
        model.fit(E, y, sample_weight=mask, verbose=0)


def fitted(steps_per_execution=1, epochs=(1,), checkpoint=None):
    """Trains for epochs of 6 steps of 6 images; with a checkpoint, in a new model after each epoch."""
    for number in epochs:
        loss = losses.CrossBatchMemory(losses.MarginLoss(), tiny.DIM, size=21, start_step=2)
        model = tiny.make_model(loss=loss, steps_per_execution=steps_per_execution)
        if checkpoint is not None and number > 1:
            model.load_weights(checkpoint).assert_consumed()
        sampler = tiny.make_sampler()
        begin = number - 1 if checkpoint else 0
        tiny.fit(model, sampler, epochs=number, initial_epoch=begin, steps_per_epoch=6)
        if checkpoint is not None:
            model.save_weights(checkpoint)
    return model


def test_training_fills_the_memory_and_resumes_with_it(tmp_path):
    model = fitted(epochs=(2,))
    memory, sampler = model.metric_loss, tiny.make_sampler()
    drawn = np.concatenate([sampler.batch(step).labels for step in range(12)])
    np.testing.assert_array_equal(memory.stored_labels, drawn[-21:])
    assert (int(memory.num_stored), int(memory.steps)) == (21, 12)
    tiny.assert_same_state(model, fitted(epochs=(1, 2), checkpoint=str(tmp_path / "checkpoint")))
    tiny.assert_same_state(model, fitted(epochs=(2,), steps_per_execution=3))
    model.evaluate(tiny.PIXELS[:6].astype(np.float32), drawn[:6], verbose=0)
    np.testing.assert_array_equal(memory.stored_labels, drawn[-21:])


def test_config_makes_an_equal_loss():
    loss = losses.CrossBatchMemory(losses.LiftedStructureLoss(), DIMENSIONS, 5, 2, 0.5, "memory")
    copy = tf.keras.losses.deserialize(tf.keras.losses.serialize(loss))
    assert copy.get_config() == loss.get_config()
    assert copy.name == "memory"
    assert type(copy.loss) is losses.LiftedStructureLoss
    assert copy.normalized_embeddings is False


def test_what_a_memory_cannot_do_is_refused():
    message = "`loss` must be one of contrastive, .*triplet with a cross-batch memory, got "
    for other in (losses.NPairLoss(), losses.ProxyNCALoss(3, DIMENSIONS), make_loss()):
        with pytest.raises(ValueError, match=message + other.name):
            losses.CrossBatchMemory(other, DIMENSIONS)
    for other in ("contrastive", losses.ContrastiveLoss):
        with pytest.raises(ValueError, match=message + re.escape(repr(other))):
            losses.CrossBatchMemory(other, DIMENSIONS)
    wrong = (("size", 0), ("start_step", -1), ("start_step", 1.5), ("start_step", float("nan")))
    for option, value in (*wrong, ("weight", 0.0), ("embedding_dim", None)):
        with pytest.raises(ValueError, match=rf"`{option}` must be .*, got {value}\."):
            make_loss(**{option: value})
    _, E, _ = next(batches())
    with pytest.raises(tf.errors.InvalidArgumentError, match="`y_true` must be whole numbers"):
        make_loss().training_step([0.5] * 6, E)
    with pytest.raises(ValueError, match="`embedding_dim` = 6 dimensions, got 5"):
        make_loss().training_step([0] * 6, E[:, :5])
