"""How a run fine-tunes: what of batch normalization is frozen, the optimizer, the learning rate over time."""

from __future__ import annotations

import dataclasses
from typing import Optional, Union

import tensorflow as tf

from profs_tf import backbones
from profs_tf.callbacks.head_warm_up import HeadWarmUp
from profs_tf.callbacks.plateau import PlateauSchedule
from profs_tf.config import Config
from profs_tf.losses import ChanceConstrainedLoss, MetricLoss
from profs_tf.models.embedder import frozen_by_default
from profs_tf.optimizers.head_adam import HeadAdam, head_adam

# Evaluations without a better recall before a plateau lowers the rate.
_PLATEAU_WAIT = 5


def frozen_batch_norm(config: Config) -> str:
    """Returns `freeze_batch_norm` with "auto" replaced by what it stands for."""
    if config.freeze_batch_norm != "auto":
        return config.freeze_batch_norm
    is_pretrained = backbones.get(config.backbone).is_pretrained(config.pretrained_weights)
    return frozen_by_default(is_pretrained, config.sync_batch_norm)


def with_frozen_batch_norm(config: Config, initial: Optional[Config]) -> Config:
    """Returns the configuration with what "auto" stands for: config.json then says it.

    Args:
        config: Of a new run.
        initial: The configuration of its `initial_run`, whose choice it keeps; None if it has none.
    """
    source = config if config.freeze_batch_norm != "auto" or initial is None else initial
    return dataclasses.replace(config, freeze_batch_norm=frozen_batch_norm(source))


def learning_rate_of(
    config: Config, steps_per_epoch: int
) -> Union[float, tf.keras.optimizers.schedules.LearningRateSchedule]:
    """Returns the learning rate as a function of the step; a number if it is constant or a plateau's."""
    if config.learning_rate_schedule == "cosine":
        return tf.keras.optimizers.schedules.CosineDecay(
            config.learning_rate, config.epochs * steps_per_epoch
        )
    if config.learning_rate_schedule == "step":
        wait = config.learning_rate_wait or -(-config.epochs // 3)
        return tf.keras.optimizers.schedules.ExponentialDecay(
            config.learning_rate, wait * steps_per_epoch, config.learning_rate_factor, staircase=True
        )
    return config.learning_rate


def build_optimizer(
    config: Config, embedder: tf.keras.Model, loss: MetricLoss, steps_per_epoch: Optional[int]
) -> HeadAdam:
    """Returns the optimizer of a run.

    Args:
        config: Of the run.
        embedder: What is trained.
        loss: Its own variables do not decay.
        steps_per_epoch: For schedules; None for a model that is not trained.
    """
    optimizer = head_adam(
        embedder,
        learning_rate_of(config, steps_per_epoch or 1),
        head_multiplier=config.head_multiplier,
        beta_1=config.beta_1,
        beta_2=config.beta_2,
        weight_decay=config.weight_decay or None,
    )
    if isinstance(loss, ChanceConstrainedLoss):
        optimizer.set_multiplier([loss.prototypes], config.ccp.prototype_multiplier)
    if config.weight_decay:
        # Biases, and shift and scale of normalization, are vectors.
        vectors = [variable for variable in embedder.trainable_variables if variable.shape.rank < 2]
        optimizer.exclude_from_weight_decay(var_list=[*vectors, *loss.trainable_variables])
    return optimizer


def plateau_schedule(config: Config, verbose: bool) -> Optional[PlateauSchedule]:
    """Returns the callback of `learning_rate_schedule` plateau, which may print; None for other schedules."""
    if config.learning_rate_schedule != "plateau":
        return None
    return PlateauSchedule(
        f"recall@{min(config.ks)}",
        config.learning_rate_factor,
        config.learning_rate_wait or _PLATEAU_WAIT,
        verbose,
    )


def head_warm_up(config: Config) -> Optional[HeadWarmUp]:
    """Returns the callback of `warmup_epochs`, or None."""
    return HeadWarmUp(config.warmup_epochs) if config.warmup_epochs else None
