"""Dataclass fields that carry a help text and a range; flags are made from them."""

import dataclasses
from collections.abc import Iterable
from dataclasses import field
from typing import Any, Optional, Union

from profs_tf.utils.checks import check_one_of


def option(
    default: Any, text: str, *, choices: tuple[str, ...] = (), minimum: Any = None, above: Any = None
) -> Any:
    """Declares a field with a default, a help text and a range.

    Args:
        default: The value; None if it is derived from other values.
        text: Help in one or two sentences, with the unit.
        choices: The valid values, if they are few.
        minimum: The smallest valid value.
        above: Valid values are greater than this.
    """
    metadata = {"help": text, "choices": choices, "minimum": minimum, "above": above}
    return field(default=default, metadata=metadata)


def whole_numbers(name: str, values: Iterable[Union[int, str]]) -> tuple[int, ...]:
    """Returns numbers, or numbers as text, as a tuple of int.

    Raises:
        ValueError: If one is not a whole number.
    """
    try:
        return tuple(int(value) for value in values)
    except ValueError as error:
        raise ValueError(
            f"`{name}` must be whole numbers separated by commas, got {','.join(map(str, values))}."
        ) from error


def check_range(spec: "dataclasses.Field[Any]", value: Any) -> None:
    """Raises ValueError if the value of a field is outside the range that `option` declared."""
    rules = spec.metadata
    if value is None or "choices" not in rules:
        return
    if rules["choices"]:
        check_one_of(spec.name, value, rules["choices"])
    if isinstance(value, float) and not abs(value) < float("inf"):
        raise ValueError(f"`{spec.name}` must be finite, got {value}.")
    if rules["minimum"] is not None and value < rules["minimum"]:
        raise ValueError(f"`{spec.name}` must be >= {rules['minimum']}, got {value}.")
    if rules["above"] is not None and value <= rules["above"]:
        raise ValueError(f"`{spec.name}` must be > {rules['above']}, got {value}.")


def trained_backbone_layers(train_layers: str) -> Optional[int]:
    """Returns how many of the backbone's last layers `train_layers` trains: N of "last:N", 0 of "head".

    None, of "all", means every layer.

    Raises:
        ValueError: If it is something else.
    """
    if train_layers in ("all", "head"):
        return None if train_layers == "all" else 0
    kind, _, count = train_layers.partition(":")
    if kind != "last" or not count.isdecimal() or int(count) < 1:
        raise ValueError(
            f"`train_layers` must be all, head, or last:N with a whole number N >= 1, got {train_layers!r}."
        )
    return int(count)
