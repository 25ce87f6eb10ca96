"""Callbacks of Keras beside ours: a run that crashes and resumes equals one that does not, or is refused."""

import json

import numpy as np
import pytest
import tensorflow as tf

import profs_tf as profs
from profs_tf.sampling.hncm.sampler import MinedBatchSampler
from tests.models.tiny import IMAGES, PLAIN, assert_same_state, fit, make_model, make_sampler

callbacks = tf.keras.callbacks
EPOCHS = 3
# What each callback of Keras needs; all are used together, before ours or behind them.
STOCK = {
    "CSVLogger": lambda folder: callbacks.CSVLogger(str(folder / "log.csv"), append=True),
    "EarlyStopping": lambda folder: callbacks.EarlyStopping("recall@1", 1.0, patience=2, mode="max"),
    "History": lambda folder: callbacks.History(),
    "LambdaCallback": lambda folder: callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: None),
    "LearningRateScheduler": lambda folder: callbacks.LearningRateScheduler(lambda epoch: 0.01 / (1 + epoch)),
    "ModelCheckpoint": lambda folder: callbacks.ModelCheckpoint(
        str(folder / "best" / "weights"), "recall@1", mode="max", save_best_only=True, save_weights_only=True
    ),
    "ProgbarLogger": lambda folder: callbacks.ProgbarLogger(),
    "ReduceLROnPlateau": lambda folder: callbacks.ReduceLROnPlateau("loss", min_delta=1e6, patience=1),
    "TensorBoard": lambda folder: callbacks.TensorBoard(str(folder / "events")),
    "TerminateOnNaN": lambda folder: callbacks.TerminateOnNaN(),
}
GROUPS = {
    "plateaus": ("EarlyStopping", "ReduceLROnPlateau"),
    "others": tuple(name for name in STOCK if name not in ("EarlyStopping", "ReduceLROnPlateau")),
}


class CrashError(Exception):
    pass


class Crash(callbacks.Callback):
    def __init__(self, step):
        super().__init__()
        self.step = step

    def on_train_batch_end(self, batch, logs=None):
        if self.model.steps_taken == self.step:
            raise CrashError


def make_recall(folder):
    path = str(folder / "own" / "best")
    return profs.RecallCallback(IMAGES, (1,), preprocessing=PLAIN, verbose=False, best_weights_path=path)


def run(folder, group, position, crash_at=None, mined=False, backup=True, run_eagerly=True):
    """Trains new objects, with the files that an earlier run left in the folder."""
    sampler = make_sampler(MinedBatchSampler, lag=2) if mined else make_sampler()
    model = make_model(run_eagerly=run_eagerly)
    recall = make_recall(folder)
    stock = [STOCK[name](folder) for name in group]
    stock += [callbacks.BackupAndRestore(str(folder / "backup"))] if backup else []
    crash = [] if crash_at is None else [Crash(crash_at)]
    ordered = [*stock, None, recall, *crash] if position == "before" else [None, recall, *stock, *crash]
    history = fit(model, sampler, ordered, EPOCHS).history
    return model, recall, history


def timeless(metrics):
    return {name: value for name, value in metrics.items() if "seconds" not in name}


# To trace the step of every model takes most of the time: one combination does.
@pytest.mark.parametrize(
    ("group", "position", "run_eagerly"),
    [
        ("plateaus", "before", True),
        ("plateaus", "behind", True),
        ("others", "before", True),
        ("others", "behind", False),
    ],
)
def test_a_crashed_run_resumes_as_if_nothing_had_happened(group, position, run_eagerly, tmp_path):
    (tmp_path / "whole").mkdir()
    (tmp_path / "crashed").mkdir()
    options = {"group": GROUPS[group], "position": position, "run_eagerly": run_eagerly}
    whole, whole_recall, whole_history = run(tmp_path / "whole", **options)
    with pytest.raises(CrashError):
        run(tmp_path / "crashed", crash_at=6, **options)
    resumed, recall, history = run(tmp_path / "crashed", **options)
    assert_same_state(whole, resumed)
    assert timeless(recall.best) == timeless(whole_recall.best)
    for name, values in timeless(whole_history).items():
        np.testing.assert_array_equal(history[name], values[1:], err_msg=name)
    if group == "plateaus":
        assert whole_history["lr"][-1] < whole_history["lr"][0]
        assert whole.stop_training
    else:
        rows = [(tmp_path / run_of / "log.csv").read_text().splitlines() for run_of in ("whole", "crashed")]
        assert [len(lines) for lines in rows] == [1 + EPOCHS, 1 + EPOCHS]
        assert "recall@1" in rows[0][0]


def test_mined_memory_is_restored(tmp_path):
    whole, *_ = run(tmp_path / "whole", (), "before", mined=True)
    for position in ("before", "behind"):
        with pytest.raises(CrashError):
            run(tmp_path / position, (), position, crash_at=10, mined=True)
        resumed, *_ = run(tmp_path / position, (), position, mined=True)
        assert_same_state(whole, resumed)


@pytest.mark.parametrize("kind", ["EarlyStopping", "ReduceLROnPlateau", "ModelCheckpoint"])
def test_a_monitor_that_would_minimize_recall_is_refused(kind, tmp_path):
    arguments = (
        {"filepath": str(tmp_path / "weights"), "save_weights_only": True}
        if kind == "ModelCheckpoint"
        else {}
    )
    callback = getattr(callbacks, kind)(monitor="recall@1", **arguments)
    with pytest.raises(ValueError, match=f"`mode` of {kind} must be 'max' for recall@1"):
        fit(make_model(), make_sampler(), [None, callback])


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda folder: [callbacks.ModelCheckpoint(str(folder / "m.h5"))], "`filepath` must end in .keras"),
        (lambda folder: [callbacks.ModelCheckpoint(str(folder / "m"))], "`filepath` must end in .keras"),
        (
            lambda folder: [callbacks.BackupAndRestore(str(folder), save_freq=2)],
            "`save_freq` of BackupAndRestore",
        ),
        (
            lambda folder: [
                callbacks.BackupAndRestore(str(folder)),
                callbacks.CSVLogger(str(folder / "log")),
            ],
            "`append` of CSVLogger must be True",
        ),
    ],
)
def test_what_would_fail_later_is_refused_at_once(made, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        fit(make_model(), make_sampler(), [None, *made(tmp_path)])


def test_a_stock_model_with_a_backup_is_refused(tmp_path):
    embedder = make_model().embedder
    embedder.compile("sgd", profs.losses.ContrastiveLoss())
    recall = make_recall(tmp_path)
    with pytest.raises(
        ValueError, match="`callbacks` must not hold BackupAndRestore with a stock Keras model"
    ):
        fit(embedder, make_sampler(), [recall, callbacks.BackupAndRestore(str(tmp_path))])


def test_every_callback_of_keras_is_covered():
    known = {*STOCK, "BackupAndRestore", "BaseLogger", "Callback", "CallbackList"}
    # They send an epoch's logs to a server, or belong to the evaluator of a parameter server.
    known |= {"RemoteMonitor", "SidecarEvaluatorModelExport"}
    assert {name for name in dir(callbacks) if name[0].isupper()} <= known


def test_best_weights_of_unknown_recall_are_not_overwritten(tmp_path):
    run(tmp_path, (), "before", backup=False)
    model = make_model(run_eagerly=True)
    model.step.assign(4)
    recall = make_recall(tmp_path)
    with pytest.raises(ValueError, match="`best_weights_path` must be a new path"):
        fit(model, make_sampler(), [None, recall])
    recall.restore(json.loads(json.dumps({"best": {"recall@1": 1.0}, "untrained": {}, "since_best": 0})))
    fit(model, make_sampler(), [None, recall])
    assert recall.best == {"recall@1": 1.0}
