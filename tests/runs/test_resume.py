import dataclasses

import pytest

from profs_tf.config import Config
from profs_tf.runs.resume import check_epochs, resumed_config


def test_fewer_epochs_than_taken_are_refused():
    check_epochs(3, steps_taken=120, steps_per_epoch=40)
    for epochs, steps in ((2, 120), (2, 81)):
        with pytest.raises(ValueError, match=f"`epochs` must be >= 3 .* {steps} steps .*, got 2"):
            check_epochs(epochs, steps, 40)


@pytest.mark.parametrize("schedule", ["cosine", "step"])
def test_epochs_that_a_schedule_depends_on_must_stay(schedule):
    saved = Config(epochs=6, learning_rate_schedule=schedule)
    assert resumed_config(saved, {"epochs": 6}) == saved
    with pytest.raises(ValueError, match=f"`epochs` must stay 6 when a run with .* {schedule} is resumed"):
        resumed_config(saved, {"epochs": 7})


def test_an_option_that_others_depend_on_is_the_one_that_must_stay():
    saved = Config(loss="sup_con", xbm_size=20, xbm_start_step=2)
    with pytest.raises(ValueError, match="`xbm_size` must stay 20 when a run is resumed, got 0"):
        resumed_config(saved, {"xbm_size": 0})
    with pytest.raises(ValueError, match="`method` must stay ccp when a run is resumed, got profs"):
        resumed_config(Config(method="ccp", ccp_patience=1), {"method": "profs"})


def test_each_option_of_the_loss_must_stay():
    saved = Config(loss="cos_face", loss_options={"scale": 16.0})
    for options in ({"scale": 16.0}, {"margin": 0.35}, {"scale": 16.0, "margin": 0.35}):
        assert resumed_config(saved, {"loss_options": options}) == saved
    with pytest.raises(ValueError, match="`cos_face_scale` must stay 16.0 when a run is resumed, got 64.0"):
        resumed_config(saved, {"loss_options": {"scale": 64.0}})
    with pytest.raises(ValueError, match="`loss` must stay cos_face when a run is resumed, got sup_con"):
        resumed_config(saved, {"loss": "sup_con", "loss_options": {"temperature": 0.1}})


def test_what_may_change_changes_together():
    saved = Config(batch_size=8, epochs=2)
    given = {"distribute": "mirrored", "cpu_replicas": 2, "epochs": 3, "export": False}
    assert resumed_config(saved, given) == Config(batch_size=8, **given)


def test_weights_and_statistics_may_be_given_as_to_the_new_run(tmp_path):
    file = tmp_path / "bn_inception.pth"
    file.touch()
    folder = str(tmp_path)
    saved = Config(
        backbone="bn_inception", weights_dir=folder, pretrained=str(file), freeze_batch_norm="statistics"
    )
    for given in (
        {"pretrained": "bn_inception.pth"},
        {"pretrained": str(file)},
        {"freeze_batch_norm": "auto"},
    ):
        assert resumed_config(saved, {"weights_dir": folder, **given}) == saved
    with pytest.raises(ValueError, match="`pretrained` must stay .*bn_inception.pth when a run is resumed"):
        resumed_config(saved, {"pretrained": "other.pth"})
    trained = dataclasses.replace(saved, freeze_batch_norm="none")
    with pytest.raises(ValueError, match="`freeze_batch_norm` must stay none when a run is resumed, got sta"):
        resumed_config(trained, {"freeze_batch_norm": "auto"})


def test_the_seed_of_a_loss_is_by_default_that_of_the_run():
    saved = Config(loss="proxy_nca", seed=5)
    assert resumed_config(saved, {"loss_options": {"seed": 5}}) == saved
    with pytest.raises(ValueError, match="`proxy_nca_seed` must stay 5 when a run is resumed, got 0"):
        resumed_config(saved, {"loss_options": {"seed": 0}})
