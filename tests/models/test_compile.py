"""`compile` and the weights files of ProfsModel: which losses, which rates, which state."""

import numpy as np
import pytest
import tensorflow as tf

import profs_tf as profs
from profs_tf.optimizers.head_adam import HeadAdam
from tests.models.linear import IMAGE_FEATURES, compiled_model, linear_embedder


@pytest.mark.parametrize(
    "loss",
    [None, "mse", "contrastive", tf.keras.losses.MeanSquaredError(), lambda y, e: tf.reduce_sum(e)],
)
def test_what_is_no_metric_loss_is_refused(loss):
    with pytest.raises(ValueError, match="`loss` must be a MetricLoss, got .*profs_tf.losses"):
        profs.ProfsModel(linear_embedder()).compile("sgd", loss)


@pytest.mark.parametrize("argument", ["metrics", "weighted_metrics", "loss_weights"])
def test_what_would_not_be_computed_is_refused(argument):
    model, loss = profs.ProfsModel(linear_embedder()), profs.losses.ContrastiveLoss()
    with pytest.raises(ValueError, match=rf"`{argument}` must be left out, got \['mae'\]"):
        model.compile("sgd", loss, **{argument: ["mae"]})
    model.compile("sgd", loss, **{argument: None})


def warm_up():
    return tf.keras.optimizers.schedules.PolynomialDecay(0.0, 10, 1e-3)


def multiplier_of(optimizer, variable):
    return optimizer.get_config()["multipliers"][variable.name]


@pytest.mark.parametrize("multiplier", [0.0, 3.0])
def test_a_multiplier_given_before_compile_stays(multiplier):
    model, loss = profs.ProfsModel(linear_embedder()), profs.losses.MarginLoss()
    optimizer = profs.head_adam(model.embedder, warm_up())
    optimizer.set_multiplier(loss.trainable_variables, multiplier)
    for _ in range(2):
        model.compile(optimizer, loss)
        assert multiplier_of(optimizer, loss.boundary) == multiplier


def test_a_schedule_gives_the_loss_its_rate_at_the_peak():
    model, loss = profs.ProfsModel(linear_embedder()), profs.losses.MarginLoss()
    optimizer = profs.head_adam(model.embedder, warm_up())
    model.compile(optimizer, loss)
    assert multiplier_of(optimizer, loss.boundary) == pytest.approx(loss.learning_rate / 1e-3)


def test_a_multiplier_given_by_name_stays():
    model, loss = profs.ProfsModel(linear_embedder()), profs.losses.MarginLoss()
    optimizer = HeadAdam(warm_up(), multipliers={loss.boundary.name: 5.0})
    model.compile(optimizer, loss)
    assert multiplier_of(optimizer, loss.boundary) == 5.0


def test_compiling_again_takes_the_loss_s_present_rate():
    model, loss = profs.ProfsModel(linear_embedder()), profs.losses.MarginLoss()
    optimizer = profs.head_adam(model.embedder, 2.0**-10)
    for rate in (2.0**-8, 2.0**-9):
        loss.learning_rate = rate
        model.compile(optimizer, loss)
        assert multiplier_of(optimizer, loss.boundary) == rate * 2**10


@pytest.mark.parametrize("name", ["checkpoint", "all.weights.h5"])
def test_weights_files_hold_step_and_anchors(tmp_path, name):
    model, fresh = compiled_model(), compiled_model()
    model.step.assign(7)
    for anchor in model.proximal.anchor_weights:
        anchor.assign_add(tf.ones_like(anchor))
    for each in (model, fresh):
        each(IMAGE_FEATURES)
    model.save_weights(str(tmp_path / name))
    fresh.load_weights(str(tmp_path / name))
    assert fresh.steps_taken == 7
    for got, saved in zip(fresh.proximal.anchor_weights, model.proximal.anchor_weights):
        np.testing.assert_array_equal(got, saved)


@pytest.mark.parametrize(
    ("name", "save_format"), [("all.h5", None), ("all.hdf5", None), ("all.keras", None), ("all", "h5")]
)
def test_weights_files_without_anchors_are_refused(tmp_path, name, save_format):
    model = compiled_model()
    with pytest.raises(
        ValueError, match=r"`filepath` must end in \.weights\.h5 for the weights of a ProfsMo"
    ):
        model.save_weights(str(tmp_path / name), save_format=save_format)
    assert not list(tmp_path.iterdir())


def test_an_optimizer_of_other_variables_is_refused():
    model = profs.ProfsModel(linear_embedder())
    optimizer = profs.head_adam(model.embedder, 1e-3)
    model.compile(optimizer, profs.losses.ContrastiveLoss())
    with pytest.raises(ValueError, match="`optimizer` must be a new one .* got one without .*boundary"):
        model.compile(optimizer, profs.losses.MarginLoss())
