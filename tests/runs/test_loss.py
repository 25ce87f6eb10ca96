"""The loss of a run, and the names of its options in errors."""

import pytest

from profs_tf import losses
from profs_tf.cli.config_flags import loss_options
from profs_tf.config import Config
from profs_tf.runs.loss import build_loss, set_factors

AT_OWN_RATE = [loss for loss in losses.names() if "learning_rate" in loss_options(loss)]


@pytest.mark.parametrize("loss", AT_OWN_RATE)
def test_the_rate_of_a_loss_is_not_taken_for_that_of_the_network(loss):
    config = Config(loss=loss, loss_options={"learning_rate": 0.0})
    with pytest.raises(ValueError, match=f"`{loss}_learning_rate` must be > 0 and finite, got 0.0"):
        build_loss(config, num_classes=4)


def test_losses_with_own_rates_are_found():
    assert {"margin", "proxy_anchor", "soft_triple"} <= set(AT_OWN_RATE)


def test_factors_are_those_that_were_set():
    assert set_factors(Config(loss="norm_softmax")) == ()
    options = {"temperature": 1e-30, "seed": 3}
    assert set_factors(Config(loss="norm_softmax", loss_options=options)) == (
        "norm_softmax_temperature=1e-30",
    )
