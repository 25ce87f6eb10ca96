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


def test_what_may_change_changes_together():
    saved = Config(batch_size=8, epochs=2)
    given = {"distribute": "mirrored", "cpu_replicas": 2, "epochs": 3}
    assert resumed_config(saved, given) == Config(batch_size=8, **given)
