import pytest
from absl import flags

from profs_tf import losses
from profs_tf.cli import config_flags
from profs_tf.config import Config


def test_flags_without_effect_are_named():
    given = {"proximal_weight": 0.5, "steps_per_projection": 3, "hard_classes_per_seed": 2, "epochs": 3}
    assert config_flags.unused(Config(**given, method="baseline"), given) == (
        "unused with --method=baseline: steps_per_projection=3, proximal_weight=0.5, hard_classes_per_seed=2"
        "; in force: steps_per_projection=1, proximal_weight=0"
    )
    assert config_flags.unused(Config(**given), given) == (
        "unused with --method=profs: hard_classes_per_seed=2"
    )
    assert config_flags.unused(Config(**given, method="profs_hncm"), given) == ""
    assert config_flags.unused(Config(method="baseline"), {"epochs": 3}) == ""
    for method, loss, setting in (
        ("profs", "margin", ""),
        ("proximal", "margin", "--method=proximal"),
        ("profs", "n_pair", "--method=profs --loss=n_pair"),
    ):
        pairs = {"representative_pairs": False}
        line = f"unused with {setting}: representative_pairs=False" if setting else ""
        assert config_flags.unused(Config(method=method, loss=loss, **pairs), pairs) == line
    assert config_flags.unused(Config(**given, loss="proxy_nca"), given) == (
        "unused with --method=profs --loss=proxy_nca: steps_per_projection=3, hard_classes_per_seed=2"
        "; in force: steps_per_projection=1"
    )
    assert config_flags.unused(Config(**given, method="ccp"), given) == (
        "unused with --method=ccp: steps_per_projection=3, proximal_weight=0.5, hard_classes_per_seed=2"
        "; in force: ccp_proximal_weight=0.0002"
    )
    both = {"representative_uses": 3, "proximal_weight": 0.5}
    assert config_flags.unused(Config(**both, method="ccp", loss="cos_face"), both) == (
        "unused with --method=ccp --loss=cos_face: representative_uses=3, proximal_weight=0.5"
        "; in force: ccp_proximal_weight=0.0002"
    )
    plateau = {"projection_end": "plateau", "mining_lag": 2}
    assert config_flags.unused(Config(**plateau), plateau) == ""
    assert config_flags.unused(Config(**plateau, method="baseline"), plateau).startswith(
        "unused with --method=baseline: projection_end=plateau"
    )


def test_options_are_those_of_the_loss_of_a_resumed_run():
    values = flags.FlagValues()
    config_flags.define(values)
    values(["train", "--cos_face_scale=16"])
    assert config_flags.given(values, "cos_face") == {"loss_options": {"scale": 16.0}}
    with pytest.raises(
        ValueError, match="`cos_face_scale` is an option of .* cos_face, but `loss` is margin"
    ):
        config_flags.given(values)


def test_help_says_what_each_option_of_a_loss_is():
    values = flags.FlagValues()
    config_flags.define(values)
    for loss in losses.names():
        for name in config_flags.loss_options(loss):
            assert len(values[f"{loss}_{name}"].help) > len(f"Option `{name}` of the loss {loss}. ") + 4, name
    assert "to that of the own class, in degrees, from 0 to 90." in values["arc_face_margin"].help
    assert values["arc_face_seed"].help.endswith("initial directions. Default: that of --seed.")


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (
            {"representative_uses": 3, "steps_per_projection": 7},
            "--steps_per_projection=7: representative_uses=3",
        ),
        (
            {"method": "profs_hncm", "hard_classes_per_seed": 2, "mining_strategy": "greedy"},
            "--mining_strategy=greedy: hard_classes_per_seed=2",
        ),
        ({"learning_rate_factor": 0.5}, "--learning_rate_schedule=constant: learning_rate_factor=0.5"),
        (
            {"freeze_batch_norm": "none", "train_layers": "head"},
            "--train_layers=head: freeze_batch_norm=none",
        ),
        ({"weights_dir": "w", "initial_run": "r"}, "--initial_run=r: weights_dir=w"),
        ({"weights_dir": "w", "pretrained": "none"}, "--pretrained=none: weights_dir=w"),
        (
            {"sync_batch_norm": True, "freeze_batch_norm": "statistics"},
            "--freeze_batch_norm=statistics: sync_batch_norm=True",
        ),
    ],
)
def test_flags_that_another_one_overrules_are_named(flags, line):
    assert config_flags.unused(Config(**flags), flags) == f"unused with {line}"
