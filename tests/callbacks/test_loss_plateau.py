"""Training with projections that end on a plateau of the loss: they follow the losses, and it resumes."""

import numpy as np
import pytest
import tensorflow as tf

import profs_tf as profs
from profs_tf.callbacks.loss_plateau import PlateauLink
from profs_tf.runs.checkpoint import RunCheckpoint
from tests.callbacks.grouped_classes import DATA, PLAIN, make_model, weights
from tests.sampling.plateau.replay import starts_by_replay

STEPS = 60


def make_sampler():
    # 40 classes, 8 in a batch: stretches of 5 steps.
    return profs.PlateauBatchSampler(DATA.labels, 16, 2, seed=2, patience=1, steps_per_projection=25, lag=3)


class Records(tf.keras.callbacks.Callback):
    """The loss of every step, and the projection of the anchors that it was pulled to."""

    def __init__(self):
        super().__init__()
        self.losses, self.projections = [], []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(float(self.model.loss_tap.loss.numpy()))
        self.projections.append(int(self.model.proximal.projection_index.numpy()))


def train(model, steps, sampler=None, link=None):
    sampler = sampler or make_sampler()
    records = Records()
    history = model.fit(
        profs.train_pipeline(DATA, sampler, PLAIN),
        steps_per_epoch=steps,
        callbacks=[link or profs.ProfsCallback(sampler), records],
        verbose=0,
    )
    return records, history.history


@pytest.fixture(scope="module")
def whole_run():
    model = make_model()
    records, logs = train(model, STEPS)
    return records, logs, weights(model)


def test_anchors_follow_the_losses(whole_run):
    records, logs, _ = whole_run
    starts = starts_by_replay(records.losses, 5, 1, 25, 3)
    assert len(starts) > 3
    expected = np.searchsorted(starts, np.arange(STEPS), side="right") - 1
    assert records.projections == expected.tolist()
    assert logs["projection_index"] == [expected[-1]]
    # Keras's mean of the epoch is that of these losses.
    assert logs["loss"] == [pytest.approx(np.mean(records.losses), rel=1e-5)]


def test_a_run_resumed_again_and_again_is_equal(whole_run, tmp_path):
    losses, projections, stops = [], [], (1, 12, 37)
    for begin, end in zip((0, *stops), (*stops, STEPS)):
        model, sampler = make_model(), make_sampler()
        link = profs.ProfsCallback(sampler)
        checkpoint = RunCheckpoint(tmp_path, model, {"projections": link})
        assert checkpoint.restore() == (begin > 0)
        part, _ = train(model, end - begin, sampler, link)
        checkpoint.save()
        losses += part.losses
        projections += part.projections
    records, _, expected = whole_run
    assert losses == records.losses
    assert projections == records.projections
    for one, other in zip(expected, weights(model)):
        np.testing.assert_array_equal(one, other)


def test_several_steps_in_one_execution_are_refused():
    model = make_model()
    model.compile("sgd", profs.losses.ContrastiveLoss(), steps_per_execution=5)
    with pytest.raises(ValueError, match="must be 1 with a sampler that ends projections by the loss, got 5"):
        train(model, 10)


def test_projections_need_a_training():
    with pytest.raises(ValueError, match="`projections` needs a training that `begin` prepared"):
        _ = PlateauLink(make_sampler()).projections
