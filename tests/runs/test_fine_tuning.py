import numpy as np
import pytest
import tensorflow as tf

from profs_tf.config import Config
from profs_tf.runs.factory import build_model
from profs_tf.runs.fine_tuning import (
    frozen_batch_norm,
    head_warm_up,
    learning_rate_of,
    plateau_schedule,
    with_frozen_batch_norm,
)

SMALL = {"backbone": "conv4", "embedding_dim": 4}


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("backbone") / "own.keras"
    tf.keras.Sequential([tf.keras.Input((16, 16, 3)), tf.keras.layers.Conv2D(2, 3)]).save(path)
    return str(path)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"backbone": "conv4"}, "none"),
        ({"backbone": "resnet50"}, "none"),
        ({"backbone": "resnet50", "pretrained": "none"}, "none"),
        ({"backbone": "resnet50", "pretrained": "imagenet"}, "statistics"),
        ({"backbone": "resnet50", "pretrained": "imagenet", "sync_batch_norm": True}, "none"),
        ({"backbone": "resnet50", "pretrained": "imagenet", "freeze_batch_norm": "none"}, "none"),
        ({"backbone": "resnet50", "freeze_batch_norm": "all"}, "all"),
    ],
)
def test_statistics_of_pretrained_weights_are_frozen(values, expected):
    assert frozen_batch_norm(Config(**values)) == expected
    assert with_frozen_batch_norm(Config(**values), None).freeze_batch_norm == expected


def test_a_model_file_is_pretrained(model_file):
    assert frozen_batch_norm(Config(backbone=model_file)) == "statistics"


def test_an_initial_run_decides_for_the_runs_after_it():
    later = Config(initial_run="run", backbone="resnet50")
    for initial in (Config(backbone="resnet50", pretrained="imagenet"), Config(freeze_batch_norm="all")):
        expected = frozen_batch_norm(initial)
        assert with_frozen_batch_norm(later, initial).freeze_batch_norm == expected
    asked = Config(initial_run="run", freeze_batch_norm="none")
    assert with_frozen_batch_norm(asked, Config(freeze_batch_norm="all")).freeze_batch_norm == "none"


@pytest.mark.parametrize(
    ("values", "rates"),
    [
        ({"learning_rate_schedule": "constant"}, [1.0, 1.0, 1.0]),
        ({"learning_rate_schedule": "plateau"}, [1.0, 1.0, 1.0]),
        # 6 epochs of 10 steps: cos^2 of half the way.
        ({"learning_rate_schedule": "cosine"}, [1.0, 0.5, 0.0]),
        # A third of 6 epochs: drops at steps 20, 40 and 60.
        ({"learning_rate_schedule": "step"}, [1.0, 0.1, 0.001]),
        (
            {"learning_rate_schedule": "step", "learning_rate_wait": 5, "learning_rate_factor": 0.5},
            [1, 1, 0.5],
        ),
    ],
)
def test_learning_rates_at_the_start_half_way_and_the_end(values, rates):
    rate = learning_rate_of(Config(epochs=6, learning_rate=1.0, **values), steps_per_epoch=10)
    found = [rate(step) if callable(rate) else rate for step in (0, 30, 60)]
    np.testing.assert_allclose(found, rates, rtol=1e-5, atol=1e-7)


def test_only_kernels_decay():
    config = Config(**SMALL, weight_decay=0.1, learning_rate=1e-2, loss="soft_triple", proximal_weight=0.0)
    model = build_model(config, num_classes=3, steps_per_epoch=1)
    trained = [*model.embedder.trainable_variables, *model.metric_loss.trainable_variables]
    before = [variable.numpy() for variable in trained]
    model.optimizer.apply_gradients([(tf.zeros_like(variable), variable) for variable in trained])
    for variable, old in zip(trained, before):
        decays = variable.name.rsplit("/")[-1] == "kernel:0"
        np.testing.assert_allclose(variable, old * (1 - 1e-3 * decays), rtol=1e-6, err_msg=variable.name)


def test_callbacks_of_the_learning_rates_exist_only_when_asked_for():
    assert head_warm_up(Config()) is None
    assert plateau_schedule(Config(), True) is None
    assert head_warm_up(Config(warmup_epochs=2)) is not None
    assert plateau_schedule(Config(learning_rate_schedule="plateau"), True) is not None
