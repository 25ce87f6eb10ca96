import dataclasses

import pytest

from profs_tf.config import Config


def test_defaults_are_the_papers():
    config = Config()
    assert (config.batch_size, config.embedding_dim, config.images_per_class) == (128, 512, 2)
    assert (config.beta_1, config.beta_2, config.head_multiplier) == (0.9, 0.99, 10.0)
    assert (config.proximal_weight, config.representative_uses, config.epochs) == (1e-3, 6, 100)


def test_json_round_trip():
    config = Config(
        ks=(1, 10), loss="contrastive", loss_options={"margin": 0.5}, steps_per_projection=7, data_dir="ü"
    )
    assert Config.from_json(config.to_json()) == config


def test_json_of_another_version_is_refused():
    text = Config().to_json().replace('"seed"', '"sead"')
    with pytest.raises(ValueError, match="unknown names: sead"):
        Config.from_json(text)


def test_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().seed = 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"proximal_weight": -1.0}, "`proximal_weight` must be >= 0.0, got -1.0"),
        ({"proximal_weight": float("nan")}, "`proximal_weight` must be finite, got nan"),
        ({"learning_rate": 0.0}, "`learning_rate` must be > 0.0, got 0.0"),
        ({"beta_2": 1.0}, "`beta_2` must be below 1, got 1.0"),
        ({"batch_size": 127}, "`batch_size` must be a multiple of `images_per_class` = 2, got 127"),
        (
            {"method": "prof"},
            "`method` must be one of baseline, proximal, profs, profs_hncm, ccp, got 'prof'",
        ),
        ({"clustering": "x"}, "`clustering` must be one of never, best, every_epoch, got 'x'"),
        ({"ks": (1, 0)}, r"`ks` must be whole numbers >= 1, got \[1, 0\]"),
        ({"ks": ()}, r"`ks` must be whole numbers >= 1, got \[\]"),
        ({"validation_classes": 0.0}, "`validation_classes` must be > 0.0, got 0.0"),
        ({"validation_classes": 1.0}, "`validation_classes` must be below 1, got 1.0"),
        ({"learning_rate_factor": 1.0}, "`learning_rate_factor` must be below 1, got 1.0"),
        (
            {"learning_rate_wait": 3, "learning_rate_schedule": "cosine"},
            "`learning_rate_wait` must be left out unless .* is step or plateau, got 3 with cosine",
        ),
        (
            {"warmup_epochs": 5, "epochs": 5},
            "`warmup_epochs` must be below `epochs` = 5, got 5: the ",
        ),
        (
            {"class_draw": "rounds", "method": "profs_hncm"},
            "`class_draw` must be independent with profs_hncm, got rounds: mining chooses the classes",
        ),
        ({"steps_per_projection": 0}, "`steps_per_projection` must be >= 1, got 0"),
    ],
)
def test_out_of_range_is_refused(values, message):
    with pytest.raises(ValueError, match=message):
        Config(**values)


@pytest.mark.parametrize(("method", "weight"), [("profs", 1e-3), ("profs_hncm", 1e-3), ("baseline", 0.0)])
def test_baseline_has_no_proximal_weight(method, weight):
    assert Config(method=method).effective_proximal_weight == weight
