import numpy as np
import pytest
import tensorflow as tf

import profs_tf as profs
from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.preprocessing import Preprocessing
from profs_tf.models.inference import embed
from profs_tf.models.non_finite import NonFiniteLossError

PIXELS = np.random.default_rng(0).integers(0, 256, (20, 6, 6, 3), np.uint8)
LABELS = np.repeat(np.arange(5), 4)
PLAIN = Preprocessing(resize=6, crop=6, mirror=False)
IMAGES = ImageList.from_labels(PIXELS, LABELS)


def flat_model(dim=4):
    model = tf.keras.Sequential(
        [tf.keras.Input([6, 6, 3]), tf.keras.layers.Flatten(), tf.keras.layers.Dense(dim)]
    )
    # To trace the few steps of a test would take longer than the steps.
    model.compile(tf.keras.optimizers.SGD(0.0), profs.losses.ContrastiveLoss(), run_eagerly=True)
    return model


class SetsWeights(tf.keras.callbacks.Callback):
    """Gives each epoch the weights of a list, so that the best epoch is known beforehand."""

    def __init__(self, weights):
        super().__init__()
        self.weights = weights

    def on_epoch_begin(self, epoch, logs=None):
        self.model.set_weights(self.weights[epoch])


def fit(model, callbacks, epochs, verbose=0):
    sampler = profs.BatchSampler(LABELS, 4)
    return model.fit(
        profs.train_pipeline(IMAGES, sampler, PLAIN),
        epochs=epochs,
        steps_per_epoch=1,
        callbacks=callbacks,
        verbose=verbose,
    )


def weights_of_quality():
    """Three sets of weights: random, separating the classes, collapsed."""
    model = flat_model()
    random = model.get_weights()
    flat = PIXELS.reshape(20, -1).astype(np.float64)
    wanted = np.eye(5)[LABELS][:, :4]
    separating = [np.linalg.lstsq(flat, wanted, rcond=None)[0].astype(np.float32), np.zeros(4, np.float32)]
    collapsed = [np.zeros_like(random[0]), np.ones(4, np.float32)]
    return random, separating, collapsed


def test_reports_and_keeps_the_best_epoch(tmp_path, caplog):
    random, separating, collapsed = weights_of_quality()
    model = flat_model()
    recall = profs.RecallCallback(
        IMAGES, (1, 2), preprocessing=PLAIN, best_weights_path=str(tmp_path / "best"), verbose=False
    )
    history = fit(model, [SetsWeights([random, separating, collapsed]), recall], 3).history
    assert history["recall@1"][1] == 1.0
    assert history["recall@1"][0] < 1.0
    assert history["recall@1"][2] == 0.0  # at equal distances the negative ranks first
    assert history["mean_pairwise_distance"][2] == 0.0
    assert "collapsed" in caplog.text
    assert recall.best["epoch"] == 2
    assert recall.best["recall@2"] == history["recall@2"][1]
    model.load_weights(str(tmp_path / "best")).expect_partial()
    np.testing.assert_array_equal(model.get_weights()[0], separating[0])


def test_stops_when_nothing_gets_better(capsys):
    random, separating, collapsed = weights_of_quality()
    recall = profs.RecallCallback(IMAGES, (1,), preprocessing=PLAIN, patience=2, verbose=False)
    history = fit(flat_model(), [SetsWeights([separating, random, collapsed, separating]), recall], 4).history
    assert len(history["recall@1"]) == 3
    assert recall.patience_is_spent
    assert not capsys.readouterr().out


def test_the_untrained_network_is_the_best_until_an_epoch_beats_it(tmp_path):
    random, separating, collapsed = weights_of_quality()
    model = flat_model()
    model.set_weights(separating)
    recall = profs.RecallCallback(
        IMAGES,
        (1,),
        preprocessing=PLAIN,
        evaluate_untrained=True,
        patience=2,
        verbose=False,
        best_weights_path=str(tmp_path / "best"),
    )
    history = fit(model, [recall, SetsWeights([random, collapsed, separating])], 3).history
    assert recall.best == {"epoch": 0, **recall.untrained}
    assert len(history["recall@1"]) == 2
    model.load_weights(str(tmp_path / "best")).expect_partial()
    np.testing.assert_array_equal(model.get_weights()[0], separating[0])


def test_says_once_that_the_network_overfits(capsys):
    random, separating, _ = weights_of_quality()
    recall = profs.RecallCallback(IMAGES, (1,), preprocessing=PLAIN)

    class LossFalls(tf.keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            logs["loss"] = 1.0 / (epoch + 1)

    fit(flat_model(), [SetsWeights([separating, *[random] * 7]), LossFalls(), recall], 8)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "overfits" in line]
    assert "recall@1 on held-out classes has been below that of epoch 1 for 5 evaluations" in line


@pytest.mark.parametrize("verbose", [0, 1, 2])
def test_the_figures_of_an_epoch_are_printed_once(verbose, capsys):
    """By Keras with the other figures of the epoch, or else in a line of their own."""
    recall = profs.RecallCallback(IMAGES, (1,), preprocessing=PLAIN, evaluate_untrained=True)
    fit(flat_model(), [recall], 2, verbose)
    printed = capsys.readouterr().out
    assert printed.count("recall@1") == 3
    assert printed.count("epoch 0: recall@1") == 1
    assert ("epoch 2: recall@1" in printed) == (verbose == 0)


def test_evaluates_every_so_many_epochs_and_the_untrained_network():
    recall = profs.RecallCallback(
        IMAGES, (1,), preprocessing=PLAIN, every_epochs=2, evaluate_untrained=True, verbose=False
    )
    history = fit(flat_model(), [recall], 4).history
    assert len(history["recall@1"]) == 2
    assert set(recall.untrained) == {"recall@1", "mrr", "mean_pairwise_distance", "evaluation_seconds"}


@pytest.mark.parametrize(("epochs", "evaluated"), [(2, [2]), (4, [3, 4]), (6, [3, 6])])
def test_the_last_epoch_is_always_evaluated(epochs, evaluated, tmp_path):
    seen = []
    recall = profs.RecallCallback(
        IMAGES,
        (1,),
        preprocessing=PLAIN,
        every_epochs=3,
        verbose=False,
        best_weights_path=str(tmp_path / "best"),
        on_embeddings=lambda epoch, embeddings: seen.append(epoch),
    )
    fit(flat_model(), [recall], epochs)
    assert seen == evaluated
    assert (tmp_path / "best.index").exists()


def test_training_stopped_before_an_evaluation_still_has_a_best_epoch(tmp_path):
    class Stops(tf.keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            self.model.stop_training = epoch == 1

    path = str(tmp_path / "best")
    recall = profs.RecallCallback(
        IMAGES, (1,), preprocessing=PLAIN, every_epochs=3, verbose=False, best_weights_path=path
    )
    fit(flat_model(), [recall, Stops()], 6)
    assert recall.best["epoch"] == 2
    assert (tmp_path / "best.index").exists()


def test_the_end_of_one_fit_is_not_taken_for_the_last_epoch():
    seen = []
    recall = profs.RecallCallback(
        IMAGES,
        (1,),
        preprocessing=PLAIN,
        every_epochs=3,
        verbose=False,
        last_epoch=4,
        on_embeddings=lambda epoch, embeddings: seen.append(epoch),
    )
    fit(flat_model(), [recall], 2)
    assert seen == []


def test_clusters_when_asked_to():
    recall = profs.RecallCallback(IMAGES, (1,), preprocessing=PLAIN, clustering="every_epoch", verbose=False)
    history = fit(flat_model(), [recall], 1).history
    assert 0.0 <= history["nmi"][0] <= 1.0
    assert 0.0 <= history["f1"][0] <= 1.0


def test_state_round_trip():
    one = profs.RecallCallback(IMAGES, (1,))
    one.best, one.untrained = {"epoch": 3, "recall@1": 0.5}, {"recall@1": 0.1}
    other = profs.RecallCallback(IMAGES, (1,))
    other.restore(one.state())
    assert (other.best, other.untrained) == (one.best, one.untrained)
    earlier_version = {name: value for name, value in one.state().items() if name != "overfitting"}
    other.restore(earlier_version)


def test_embeds_in_order_whatever_the_batch_size():
    model = flat_model()
    whole = embed(model, IMAGES, preprocessing=PLAIN, batch_size=20)
    np.testing.assert_allclose(embed(model, IMAGES, preprocessing=PLAIN, batch_size=7), whole, rtol=1e-5)
    np.testing.assert_allclose(whole, model(PIXELS), rtol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"every_epochs": 1.5}, "`every_epochs` must be a whole number >= 1, got 1.5"),
        ({"every_epochs": 0}, "`every_epochs` must be a whole number >= 1, got 0"),
        ({"patience": 0}, "`patience` must be a whole number >= 1, got 0. None never stops."),
        ({"clustering": "always"}, "`clustering` must be one of never, best, every_epoch, got 'always'"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        profs.RecallCallback(IMAGES, **arguments)


def test_hands_on_the_embeddings_of_every_evaluation():
    random, separating, _ = weights_of_quality()
    model, seen = flat_model(), []
    recall = profs.RecallCallback(
        IMAGES,
        ks=(1,),
        preprocessing=PLAIN,
        evaluate_untrained=True,
        verbose=False,
        on_embeddings=lambda epoch, embeddings: seen.append((epoch, embeddings)),
    )
    model.set_weights(random)
    fit(model, [SetsWeights([random, separating]), recall], epochs=2)
    assert [epoch for epoch, _ in seen] == [0, 1, 2]
    np.testing.assert_allclose(seen[2][1], embed(model, IMAGES, preprocessing=PLAIN))
    np.testing.assert_array_equal(seen[0][1], seen[1][1])


@pytest.mark.parametrize("stock", [True, False])
def test_a_last_step_that_breaks_the_weights_is_named(stock):
    """The step itself had a finite loss: it is the evaluation that sees what came of it."""
    model = flat_model()
    model.optimizer.learning_rate = 1e38
    if not stock:
        optimizer, embedder = model.optimizer, model
        model = profs.ProfsModel(embedder, proximal_weight=0.0)
        model.compile(optimizer, profs.losses.ContrastiveLoss(), run_eagerly=True)
    recall = profs.RecallCallback(IMAGES, preprocessing=PLAIN, evaluate_untrained=True, verbose=False)
    # A stock model does not watch its weights.
    message = f"The {'embeddings' if stock else 'weights'} are not finite since step {int(stock)}"
    with pytest.raises(NonFiniteLossError, match=message):
        fit(model, [recall], 1)
    assert recall.best["epoch"] == 0


@pytest.mark.parametrize("ks", [(0,), (1.5,), (), (1, 20)])
def test_ks_out_of_range_are_refused_at_once(ks):
    with pytest.raises(ValueError, match="`ks` must"):
        profs.RecallCallback(IMAGES, ks)
