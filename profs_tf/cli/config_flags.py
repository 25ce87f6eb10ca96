"""The flags of a training run: one for each field of `Config`, and one for each option of each loss."""

import dataclasses
import inspect
import re
import typing
from collections.abc import Callable
from typing import Any

from absl import flags

from profs_tf import losses
from profs_tf.cli.flag_types import define_flag
from profs_tf.config import Config
from profs_tf.utils.checks import check_one_of

# Fields without effect under some methods, or with losses that have prototypes.
_OF_REPRESENTATIVES = (
    "steps_per_projection",
    "projection_end",
    "projection_patience",
    "representative_uses",
    "first_projection_pull",
)
_OF_REUSE = ("fix_representative_augmentation",)
_OF_PROJECTIONS = (*_OF_REPRESENTATIVES, "proximal_weight", "proximal_decay")
_OF_MINING = ("hard_classes_per_seed", "mining_strategy")
# Of effect in batches whose queries are representatives.
_OF_QUERIES = ("representative_pairs",)
# Methods with ordinary batches.
_ORDINARY = ("baseline", "proximal", "ccp")
# Flag, the one that can leave it without effect, and whether it has one in a run.
_OVERRULED: tuple[tuple[str, str, Callable[[Config], bool]], ...] = (
    ("representative_uses", "steps_per_projection", lambda config: config.steps_per_projection is None),
    ("hard_classes_per_seed", "mining_strategy", lambda config: config.mining_strategy != "greedy"),
    (
        "learning_rate_factor",
        "learning_rate_schedule",
        lambda config: config.learning_rate_schedule in ("step", "plateau"),
    ),
    ("freeze_batch_norm", "train_layers", lambda config: config.train_layers != "head"),
    ("weights_dir", "initial_run", lambda config: config.initial_run is None),
    ("weights_dir", "pretrained", lambda config: config.pretrained != "none"),
    (
        "sync_batch_norm",
        "freeze_batch_norm",
        lambda config: config.freeze_batch_norm not in ("statistics", "all"),
    ),
)
MOST_NEEDED = "Most needed"
_MOST_NEEDED = (
    "dataset",
    "output_dir",
    "backbone",
    "pretrained",
    "method",
    "loss",
    "batch_size",
    "learning_rate",
    "epochs",
)
# The first field of each group of --help -> its title.
_GROUP_BEGINS = {
    "dataset": "Data",
    "method": "Method (PROFS)",
    "ccp_prototypes": "Method (CCP)",
    "xbm_size": "Cross-batch memory (XBM)",
    "backbone": "Network and its weights",
    "image_resize": "Images",
    "learning_rate": "Learning rate",
    "epochs": "Steps and checkpoints",
    "ks": "Evaluation",
    "distribute": "Devices and precision",
}
# Options that follow from the data, the model and other flags; a flag could only contradict them.
_DERIVED_OPTIONS = ("num_classes", "embedding_dim", "representative_pairs", "name")


def define(values: flags.FlagValues) -> None:
    """Defines all flags of a training run; --help shows them in this order."""
    for name in _MOST_NEEDED:
        define_field(values, name, MOST_NEEDED)
    group = ""
    for spec in dataclasses.fields(Config):
        group = _GROUP_BEGINS.get(spec.name, group)
        if spec.name not in ("loss_options", *_MOST_NEEDED):
            define_field(values, spec.name, group)
    for loss in losses.names():
        for name, option in loss_options(loss).items():
            text, default = f"Option `{name}` of the loss {loss}. {_documented(loss, name)}", option.default
            if name == "seed":
                text, default = f"{text} Default: that of --seed.", None
            flag, group = f"{loss}_{name}", "Options of losses"
            define_flag(values, flag, option.type, default, text.strip(), option.choices, group)


def define_field(values: flags.FlagValues, name: str, group: str = "Data") -> None:
    """Defines the flag of one field of `Config`, in a group of --help."""
    spec = Config.__dataclass_fields__[name]
    kind = _plain_type(typing.get_type_hints(Config)[name])
    choices = tuple(losses.names()) if name == "loss" else spec.metadata["choices"]
    define_flag(values, name, kind, spec.default, spec.metadata["help"], choices, group)


def loss_options(loss: str) -> dict[str, losses.Option]:
    """Returns the options of a loss that the user chooses: name to `losses.Option`."""
    return {name: option for name, option in losses.options(loss).items() if name not in _DERIVED_OPTIONS}


def given(values: flags.FlagValues, loss: str = Config.loss) -> dict[str, Any]:
    """Returns the flags that were set, on the command line or in a flag file, as arguments of `Config`.

    Args:
        values: The parsed flags.
        loss: The loss of the run unless its flag was set.

    Raises:
        ValueError: If the loss is unknown, or an option of another loss was set.
    """
    chosen = {
        spec.name: values[spec.name].value
        for spec in dataclasses.fields(Config)
        if spec.name != "loss_options" and values[spec.name].present
    }
    options = _given_loss_options(values, str(chosen.get("loss", loss)))
    if options:
        chosen["loss_options"] = options
    return chosen


def unused(config: Config, given_values: dict[str, Any]) -> str:
    """Returns lines that name the given flags without effect beside the others, or an empty string.

    Args:
        config: Of the run.
        given_values: The result of `given`.
    """
    names = () if config.mines_classes else _OF_MINING
    if not config.mines_classes and config.projection_end == "steps":
        names = (*names, "mining_lag")
    setting, in_force = f"--method={config.method}", ""
    if config.method == "baseline":
        names, in_force = (*_OF_PROJECTIONS, *names), "; in force: steps_per_projection=1, proximal_weight=0"
    elif losses.loss_class(config.loss).has_prototypes:
        names, in_force = (*_OF_REPRESENTATIVES, *names), "; in force: steps_per_projection=1"
        setting += f" --loss={config.loss}"
    if config.method == "ccp":
        names = (*_OF_REPRESENTATIVES, "proximal_weight", *names)
        in_force = f"; in force: ccp_proximal_weight={config.ccp.proximal_weight:g}"
    if config.method in _ORDINARY or losses.loss_class(config.loss).has_prototypes:
        names = (*names, *_OF_REUSE)
    if config.method in _ORDINARY:
        names = (*names, *_OF_QUERIES)
    elif "representative_pairs" not in losses.options(config.loss):
        names = (*names, *_OF_QUERIES)
        setting = f"--method={config.method} --loss={config.loss}"
    # Method and loss may both leave a flag without effect.
    listed = ", ".join(
        f"{name}={getattr(config, name)}" for name in dict.fromkeys(names) if name in given_values
    )
    lines = [f"unused with {setting}: {listed}{in_force}"] if listed else []
    for name, owner, has_effect in _OVERRULED:
        if name in given_values and name not in names and not has_effect(config):
            lines.append(f"unused with --{owner}={getattr(config, owner)}: {name}={getattr(config, name)}")
    return "\n".join(lines)


def _documented(loss: str, option: str) -> str:
    """Returns what the class of a loss says of an option in its docstring; empty where that is stripped."""
    documented = inspect.getdoc(losses.loss_class(loss)) or ""
    found = re.search(rf"^ {{4}}{option}: (.*(?:\n {{8}}.*)*)", documented, re.MULTILINE)
    return "" if found is None else " ".join(found[1].replace("``", "`").split())


def _given_loss_options(values: flags.FlagValues, chosen_loss: str) -> dict[str, Any]:
    check_one_of("loss", chosen_loss, losses.names())
    given_options = {}
    for loss in losses.names():
        for name in loss_options(loss):
            flag = f"{loss}_{name}"
            if not values[flag].present:
                continue
            if loss != chosen_loss:
                raise ValueError(f"`{flag}` is an option of the loss {loss}, but `loss` is {chosen_loss}.")
            given_options[name] = values[flag].value
    return given_options


def _plain_type(hint: Any) -> type:
    """Returns T for Optional[T], tuple for a tuple of any items, or the hint itself."""
    if typing.get_origin(hint) is tuple:
        return tuple
    arguments = [argument for argument in typing.get_args(hint) if argument is not type(None)]
    return arguments[0] if arguments else hint
