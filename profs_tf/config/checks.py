"""Which options of a run go together: rules that no single option can state."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from profs_tf.utils.option_fields import trained_backbone_layers

if TYPE_CHECKING:
    from profs_tf.config.options import Config


def check_combinations(config: Config) -> None:
    """Raises ValueError if options of a run contradict each other."""
    if not config.ks or min(config.ks) < 1:
        raise ValueError(f"`ks` must be whole numbers >= 1, got {list(config.ks)}.")
    for name in ("beta_1", "beta_2"):
        if getattr(config, name) >= 1.0:
            raise ValueError(f"`{name}` must be below 1, got {getattr(config, name)}.")
    if config.validation_classes is not None and config.validation_classes >= 1.0:
        raise ValueError(f"`validation_classes` must be below 1, got {config.validation_classes}.")
    if config.batch_size % config.images_per_class:
        raise ValueError(
            f"`batch_size` must be a multiple of `images_per_class` = {config.images_per_class}, "
            f"got {config.batch_size}."
        )
    if config.mines_classes and config.class_draw != "independent":
        raise ValueError(
            f"`class_draw` must be independent with profs_hncm, got {config.class_draw}: mining chooses the "
            "classes."
        )
    if config.initial_run == "":
        raise ValueError(
            "`initial_run` must name the folder of a run. Leave it out to start from other weights."
        )
    if config.initial_run is not None and config.pretrained is not None:
        raise ValueError(
            f"`pretrained` must be left out with `initial_run`, got {config.pretrained}: its weights would "
            "be overwritten."
        )
    _check_memory(config)
    _check_projections(config)
    _check_ccp(config)
    _check_learning_rate(config)
    _check_head(config)
    _check_execution(config)


def _check_memory(config: Config) -> None:
    for name in ("xbm_start_step", "xbm_weight"):
        value = getattr(config, name)
        if value is not None and not config.xbm_size:
            raise ValueError(f"`{name}` must be left out unless `xbm_size` is > 0, got {value}.")


def _check_projections(config: Config) -> None:
    """Rejects what does not go with projections that end on a plateau."""
    if config.projection_end == "steps":
        if config.projection_patience is not None:
            raise ValueError(
                "`projection_patience` must be left out unless `projection_end` is plateau, got "
                f"{config.projection_patience} with {config.projection_end}."
            )
        return
    for name, needed, reason in (
        ("method", config.method != "profs_hncm", "its batches wait for embeddings, not for losses"),
        ("steps_per_execution", config.steps_per_execution == 1, "every step's loss is needed"),
        (
            "first_projection_pull",
            config.first_projection_pull,
            "it leaves out the pull of M steps, which are not known",
        ),
    ):
        if not needed:
            raise ValueError(
                f"`{name}` must not be {getattr(config, name)} with `projection_end` plateau: {reason}."
            )


def _check_ccp(config: Config) -> None:
    """Rejects options of CCP without it, and what does not go with it."""
    if config.method != "ccp":
        for spec in dataclasses.fields(config):
            value = getattr(config, spec.name)
            if spec.name.startswith("ccp_") and value is not None:
                raise ValueError(
                    f"`{spec.name}` must be left out unless `method` is ccp, got {value} with "
                    f"{config.method}."
                )
        return
    options = config.ccp
    if options.pool_size < options.prototypes:
        raise ValueError(
            f"`ccp_pool_size` must be >= `ccp_prototypes` = {options.prototypes}, got {options.pool_size}."
        )
    if options.validation_classes >= 1.0:
        raise ValueError(f"`ccp_validation_classes` must be below 1, got {options.validation_classes}.")
    if config.projection_end != "steps":
        raise ValueError(
            f"`projection_end` must be left out with `method` ccp, got {config.projection_end}: its "
            "projections end on a plateau of validation, by `ccp_patience`."
        )
    if config.steps_per_execution != 1:
        raise ValueError(
            f"`steps_per_execution` must be 1 with `method` ccp, got {config.steps_per_execution}."
        )
    if config.xbm_size:
        raise ValueError(
            f"`xbm_size` must be 0 with `method` ccp, got {config.xbm_size}: its images are compared with "
            "prototypes."
        )


def _check_learning_rate(config: Config) -> None:
    if config.learning_rate_factor >= 1.0:
        raise ValueError(f"`learning_rate_factor` must be below 1, got {config.learning_rate_factor}.")
    if config.learning_rate_wait is not None and config.learning_rate_schedule not in ("step", "plateau"):
        raise ValueError(
            "`learning_rate_wait` must be left out unless `learning_rate_schedule` is step or plateau, got "
            f"{config.learning_rate_wait} with {config.learning_rate_schedule}."
        )
    if config.warmup_epochs and config.warmup_epochs >= config.epochs:
        raise ValueError(
            f"`warmup_epochs` must be below `epochs` = {config.epochs}, got {config.warmup_epochs}: the "
            "backbone would never train."
        )


def _check_head(config: Config) -> None:
    if config.head_init == "pca" and config.head != "linear":
        raise ValueError(
            f"`head_init` must be random with `head` {config.head}, got pca: whitening is one linear "
            "transformation. Leave it out."
        )
    if config.head_init is not None and config.initial_run is not None:
        raise ValueError(
            f"`head_init` must be left out with `initial_run`, got {config.head_init}: the head comes from "
            "that run."
        )
    trained_backbone_layers(config.train_layers)
    if config.train_layers == "head":
        _check_features(config)


def _check_features(config: Config) -> None:
    """Rejects what training on features that are computed once cannot do."""
    for name, neutral, reason in (
        ("image_shift", 0, "features are of images that are not shifted"),
        ("augmentation", "crop", "features are of whole images"),
        ("color_jitter", 0.0, "features are computed once"),
        ("erasing", 0.0, "features are computed once"),
        ("distribute", "none", "a head trains in seconds on one device"),
        ("warmup_epochs", 0, "nothing but the head trains"),
        ("sync_batch_norm", False, "the backbone runs in inference mode"),
        ("initial_run", None, "the backbone is not trained further. Train all or the last:N layers"),
    ):
        value = getattr(config, name)
        if value not in (None, neutral):
            raise ValueError(f"`{name}` must be left out with `train_layers` head, got {value}: {reason}.")


def _check_execution(config: Config) -> None:
    if config.mines_classes and config.steps_per_execution != 1:
        raise ValueError(
            f"`steps_per_execution` must be 1 with profs_hncm, got {config.steps_per_execution}: "
            "every step's embeddings are needed."
        )
    if config.cpu_replicas is not None and config.distribute != "mirrored":
        raise ValueError(
            f"`cpu_replicas` must be left out unless `distribute` is mirrored, got {config.cpu_replicas} "
            f"with {config.distribute}."
        )
    if config.jit_compile and config.distribute != "none":
        raise ValueError(
            f"`jit_compile` must be off with `distribute` {config.distribute}: XLA does not compile the "
            "exchange between replicas."
        )
    if config.sync_batch_norm and config.precision == "mixed_bfloat16":
        raise ValueError(
            "`precision` must be float32 or mixed_float16 with `sync_batch_norm`, got mixed_bfloat16: "
            "Keras would sum the statistics in bfloat16, which ruins the variance."
        )
