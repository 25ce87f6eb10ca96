"""From a `Config` to the loss of a run, with what the method and the memory make of it."""

from typing import Any

from profs_tf import losses
from profs_tf.config import Config


def build_loss(config: Config, num_classes: int) -> losses.MetricLoss:
    """Returns the loss; with its memory if it has one, and with CCP its prototypes.

    Options that follow from data and model are filled in.

    Raises:
        ValueError: If the loss or one of its options is unknown or out of range.
    """
    derived = {
        "num_classes": num_classes,
        "embedding_dim": config.embedding_dim,
        "seed": config.seed,
        "representative_pairs": config.representative_pairs,
    }
    known = losses.options(config.loss)
    options = {name: value for name, value in derived.items() if name in known}
    try:
        loss = losses.get(config.loss, **{**options, **config.loss_options})
    except ValueError as error:
        raise ValueError(_named_by_run(str(error), config)) from error
    if config.method == "ccp":
        return losses.ChanceConstrainedLoss(
            loss,
            num_classes,
            config.embedding_dim,
            prototypes_per_class=config.ccp.prototypes,
            ordinary_weight=config.ccp.ordinary_weight,
            seed=config.seed,
        )
    if not config.xbm_size:
        return loss
    given = {"start_step": config.xbm_start_step, "weight": config.xbm_weight}
    of_memory: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return losses.CrossBatchMemory(loss, config.embedding_dim, config.xbm_size, **of_memory)


def _named_by_run(message: str, config: Config) -> str:
    """Returns a message of the loss with the run's names of its options; `learning_rate` is another one."""
    for name in config.loss_options:
        message = message.replace(f"`{name}`", f"`{config.loss}_{name}`")
    return message


def set_factors(config: Config) -> tuple[str, ...]:
    """Returns the loss's own options that were set to a float, as NAME=VALUE by the run's names.

    Such a factor, rate or temperature can make a step overflow.
    """
    return tuple(
        f"{config.loss}_{name}={value}"
        for name, value in config.loss_options.items()
        if isinstance(value, float)
    )


def check_memory_is_used(loss: losses.MetricLoss, num_steps: int) -> None:
    """Raises ValueError if a run is over before its cross-batch memory is used."""
    if isinstance(loss, losses.CrossBatchMemory) and loss.start_step >= num_steps:
        raise ValueError(
            f"`xbm_start_step` must be below the {num_steps} steps of the run, got {loss.start_step}: the "
            "memory would never be used."
        )
