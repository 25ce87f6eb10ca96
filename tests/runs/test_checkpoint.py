import signal

import numpy as np
import pytest
import tensorflow as tf

import profs_tf as profs
from profs_tf.datasets.image_list import ImageList
from profs_tf.runs.checkpoint import RunCheckpoint, TrainingInterruptedError

PIXELS = np.random.default_rng(0).integers(0, 256, (24, 8, 8, 3), np.uint8)
IMAGES = ImageList.from_labels(PIXELS, np.repeat(np.arange(6), 4))
PREPROCESSING = profs.Preprocessing(resize=8, crop=8, shift=1)
LOSSES = {
    "margin": lambda: profs.losses.MarginLoss(),
    "margin_distance_weighted": lambda: profs.losses.MarginLoss(mining="distance_weighted"),
    "margin_boundary_per_class": lambda: profs.losses.MarginLoss(boundary_per_class=True, num_classes=6),
    "soft_triple": lambda: profs.losses.SoftTripleLoss(6, 5, centers_per_class=2),
    "proxy_nca": lambda: profs.losses.ProxyNCALoss(6, 5),
    "proxy_anchor": lambda: profs.losses.ProxyAnchorLoss(6, 5),
    "norm_softmax": lambda: profs.losses.NormSoftmaxLoss(6, 5),
    "cos_face": lambda: profs.losses.CosFaceLoss(6, 5),
    "arc_face": lambda: profs.losses.ArcFaceLoss(6, 5),
    "sup_con": lambda: profs.losses.SupConLoss(),
}
# Their variables are those of Proxy-NCA, or none.
ALIKE = ("norm_softmax", "cos_face", "arc_face", "sup_con")


def compiled_model(loss="margin", dim=5, run_eagerly=True):
    """Without tracing its step, which takes longer than these trainings, unless asked for."""
    images = tf.keras.Input([8, 8, 3])
    hidden = tf.keras.layers.BatchNormalization()(tf.keras.layers.Flatten()(images))
    outputs = tf.keras.layers.Dense(
        dim, kernel_initializer=tf.keras.initializers.HeNormal(seed=3), name="head"
    )(hidden)
    embedder = tf.keras.Model(images, outputs)
    model = profs.ProfsModel(embedder, proximal_weight=0.1)
    model.compile(profs.head_adam(embedder, 0.01), LOSSES[loss](), run_eagerly=run_eagerly)
    return model


def train(model, steps, *callbacks, steps_per_projection=4):
    sampler = profs.BatchSampler(IMAGES.labels, 8, 2, seed=1, steps_per_projection=steps_per_projection)
    model.fit(
        profs.train_pipeline(IMAGES, sampler, PREPROCESSING),
        steps_per_epoch=steps,
        callbacks=[profs.ProfsCallback(sampler), *callbacks],
        verbose=0,
    )


def values(model):
    owners = (model.embedder, model.proximal, model.metric_loss)
    variables = [variable for owner in owners for variable in owner.variables]
    return [variable.numpy() for variable in (*variables, *model.optimizer.variables, model.step)]


class SavesAt(tf.keras.callbacks.Callback):
    """Saves what a run that is killed after a step would leave."""

    def __init__(self, step, folder):
        super().__init__()
        self.step, self.folder = step, folder

    def on_train_batch_end(self, batch, logs=None):
        if int(self.model.step) == self.step:
            RunCheckpoint(self.folder, self.model, {}).save()


@pytest.mark.parametrize(
    "loss", [pytest.param(loss, marks=[pytest.mark.slow] if loss in ALIKE else []) for loss in LOSSES]
)
def test_a_restored_run_goes_on_bit_for_bit(loss, tmp_path):
    run_eagerly = loss != "margin"
    whole = compiled_model(loss, run_eagerly=run_eagerly)
    own_before = [variable.numpy() for variable in whole.metric_loss.trainable_variables]
    train(whole, 11, SavesAt(6, tmp_path))  # in the middle of the second projection
    second = compiled_model(loss, run_eagerly=run_eagerly)
    assert RunCheckpoint(tmp_path, second, {}).restore()
    assert int(second.step) == 6
    train(second, 5)
    for expected, got in zip(values(whole), values(second)):
        np.testing.assert_array_equal(expected, got)
    own_after = [variable.numpy() for variable in whole.metric_loss.trainable_variables]
    assert bool(own_before) == (loss != "sup_con")
    assert all((before != after).any() for before, after in zip(own_before, own_after))


def test_the_lagged_anchor_is_restored(tmp_path):
    whole = compiled_model()
    train(whole, 7, SavesAt(3, tmp_path), steps_per_projection=1)
    second = compiled_model()
    RunCheckpoint(tmp_path, second, {}).restore()
    train(second, 4, steps_per_projection=1)
    for expected, got in zip(values(whole), values(second)):
        np.testing.assert_array_equal(expected, got)


class Remembers:
    def __init__(self, best):
        self.best = best

    def state(self):
        return {"best": self.best}

    def restore(self, state):
        self.best = state["best"]


def test_callbacks_remember(tmp_path):
    model = compiled_model()
    RunCheckpoint(tmp_path, model, {"recall": Remembers({"recall@1": 0.25})}).save()
    other = Remembers({})
    RunCheckpoint(tmp_path, model, {"recall": other}).restore()
    assert other.best == {"recall@1": 0.25}


def test_nothing_to_restore(tmp_path):
    assert RunCheckpoint(tmp_path, compiled_model(), {}).restore() is False


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    RunCheckpoint(tmp_path, compiled_model("proxy_nca"), {}).save()
    with pytest.raises(ValueError, match="does not fit this model"):
        RunCheckpoint(tmp_path, compiled_model("margin"), {}).restore()


def test_a_checkpoint_of_another_shape_is_refused(tmp_path):
    RunCheckpoint(tmp_path, compiled_model(dim=4), {}).save()
    with pytest.raises(ValueError, match="does not fit this model"):
        RunCheckpoint(tmp_path, compiled_model(dim=5), {}).restore()


def test_saves_every_so_many_steps_and_keeps_two(tmp_path):
    model = compiled_model()
    train(model, 10, RunCheckpoint(tmp_path, model, {}, every_steps=3))
    kept = sorted(path.name for path in tmp_path.glob("ckpt-*.index"))
    assert kept == ["ckpt-10.index", "ckpt-9.index"]


class KilledError(Exception):
    pass


class KillsAfter(tf.keras.callbacks.Callback):
    """Ends training as a kill would, when the step's other callbacks are done and before the epoch's are."""

    def __init__(self, step):
        super().__init__()
        self.step = step

    def on_train_batch_end(self, batch, logs=None):
        if int(self.model.step) == self.step:
            raise KilledError


@pytest.mark.parametrize("killed_after", [5, 6, 7])
def test_no_epoch_is_saved_before_its_end_was_seen_to(killed_after, tmp_path):
    model = compiled_model()

    def train_epochs():
        for _ in range(2):
            train(model, 6, RunCheckpoint(tmp_path, model, {}, every_steps=1), KillsAfter(killed_after))

    with pytest.raises(KilledError):
        train_epochs()
    restored = compiled_model()
    assert RunCheckpoint(tmp_path, restored, {}).restore()
    # Step 6 ends the first epoch: killed before what belongs to its end was done, it is taken again.
    assert int(restored.step) == {5: 5, 6: 5, 7: 7}[killed_after]


def test_a_signal_at_the_last_step_of_an_epoch_stops_after_the_epochs_end(tmp_path):
    class Signals(tf.keras.callbacks.Callback):
        ended = 0

        def on_train_batch_end(self, batch, logs=None):
            if batch == 5:
                signal.raise_signal(signal.SIGTERM)

        def on_epoch_end(self, epoch, logs=None):
            self.ended += 1

    model, signals = compiled_model(), Signals()
    checkpoint = RunCheckpoint(tmp_path, model, {}, every_steps=1)
    stopped = pytest.raises(TrainingInterruptedError, match="SIGTERM at step 6: the run is saved")
    with checkpoint.saving_on_signals(), stopped:
        train(model, 6, signals, checkpoint)
    assert signals.ended == 1
    assert sorted(path.name for path in tmp_path.glob("ckpt-*.index")) == ["ckpt-5.index", "ckpt-6.index"]


def test_workers_whose_every_step_ends_an_epoch_stop(tmp_path):
    class Request:
        is_set = False

        def set(self):
            self.is_set = True

        def exchange(self):
            pass

    model = compiled_model()
    model.stop_request = Request()
    checkpoint = RunCheckpoint(tmp_path, model, {})
    checkpoint._note_signal(signal.SIGTERM, None)
    with pytest.raises(TrainingInterruptedError, match="SIGTERM at step 1: the run is saved"):
        train(model, 1, checkpoint)
