"""The absl flags of `Config`: one for each field, and one for each option of each loss."""

import dataclasses
import typing
from collections.abc import Callable
from typing import Any

from absl import flags

from profs_tf import losses
from profs_tf.config import Config

# What has no effect with other methods, or with losses that have prototypes.
_OF_REPRESENTATIVES = ("steps_per_projection", "representative_uses")
_OF_PROJECTIONS = (*_OF_REPRESENTATIVES, "proximal_weight", "proximal_decay")
_OF_MINING = ("hard_classes_per_seed", "mining_strategy", "mining_lag")
# What the data and the model decide; a flag could only contradict them.
_DERIVED_OPTIONS = ("num_classes", "embedding_dim", "name")


def define(values: flags.FlagValues) -> None:
    """Defines the flags of a training run among `values`."""
    hints = typing.get_type_hints(Config)
    for spec in dataclasses.fields(Config):
        if spec.name != "loss_options":
            define_one(
                values,
                spec.name,
                _plain_type(hints[spec.name]),
                spec.default,
                spec.metadata["help"],
                tuple(losses.names()) if spec.name == "loss" else spec.metadata["choices"],
            )
    for loss in losses.names():
        for name, option in loss_options(loss).items():
            text = f"Option `{name}` of the loss {loss}."
            define_one(values, f"{loss}_{name}", option.type, option.default, text)


def loss_options(loss: str) -> dict[str, losses.Option]:
    """Returns the options of a loss that a user chooses, name to `losses.Option`."""
    return {name: option for name, option in losses.options(loss).items() if name not in _DERIVED_OPTIONS}


def given(values: flags.FlagValues) -> dict[str, Any]:
    """Returns what was set on the command line or in a flag file, as arguments of `Config`.

    Raises:
        ValueError: if the loss is unknown, or an option of another loss than the chosen one was set.
    """
    chosen = {
        spec.name: values[spec.name].value
        for spec in dataclasses.fields(Config)
        if spec.name != "loss_options" and values[spec.name].present
    }
    options = _given_loss_options(values, str(chosen.get("loss", Config.loss)))
    if options:
        chosen["loss_options"] = options
    return chosen


def unused(config: Config, given_values: dict[str, Any]) -> str:
    """Returns a line that names given values without effect under method and loss, or an empty string.

    Args:
        config: of the run.
        given_values: what `given` returned.
    """
    names = () if config.mines_classes else _OF_MINING
    setting, in_force = f"--method={config.method}", ""
    if config.method == "baseline":
        names, in_force = (*_OF_PROJECTIONS, *names), "; in force: steps_per_projection=1, proximal_weight=0"
    elif losses.loss_class(config.loss).has_prototypes:
        names, in_force = (*_OF_REPRESENTATIVES, *names), "; in force: steps_per_projection=1"
        setting += f" --loss={config.loss}"
    listed = ", ".join(f"{name}={getattr(config, name)}" for name in names if name in given_values)
    return f"unused with {setting}: {listed}{in_force}" if listed else ""


def _given_loss_options(values: flags.FlagValues, chosen_loss: str) -> dict[str, Any]:
    if chosen_loss not in losses.names():
        raise ValueError(f"`loss` must be one of {', '.join(losses.names())}, got {chosen_loss!r}.")
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
    """Returns T of Optional[T], tuple of what a tuple holds, or the hint itself."""
    if typing.get_origin(hint) is tuple:
        return tuple
    arguments = [argument for argument in typing.get_args(hint) if argument is not type(None)]
    return arguments[0] if arguments else hint


def define_one(
    values: flags.FlagValues, name: str, kind: type, default: Any, text: str, choices: tuple[str, ...] = ()
) -> None:
    """Defines one flag of the type `kind` (bool, int, float, str or tuple)."""
    if choices:
        flags.DEFINE_enum(name, default, list(choices), text, flag_values=values)
        # absl puts the choices in front of the text; our help shows them with the name.
        values[name].help = text
    elif kind is tuple:
        items = [str(value) for value in default]
        flags.DEFINE_list(name, items, f"{text} Separated by commas.", flag_values=values)
    else:
        define_by_kind: dict[type, Callable[..., Any]] = {
            bool: flags.DEFINE_boolean,
            int: flags.DEFINE_integer,
            float: flags.DEFINE_float,
            str: flags.DEFINE_string,
        }
        define_by_kind[kind](name, default, text, flag_values=values)
