"""From a `Config` to the parts of a run: preprocessing, sampler, loss, embedder, model."""

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

import tensorflow as tf

from profs_tf import backbones, datasets, losses
from profs_tf.config import Config
from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.preprocessing import Preprocessing, preprocessing_for
from profs_tf.models.embedder import build_embedder
from profs_tf.models.head import split_at_head
from profs_tf.models.profs_model import ProfsModel
from profs_tf.models.proximal import DelayedWeight, ProximalWeight
from profs_tf.runs.fine_tuning import build_optimizer, frozen_batch_norm
from profs_tf.runs.loss import build_loss, check_memory_is_used
from profs_tf.sampling.batch_sampler import BatchSampler
from profs_tf.sampling.hncm.sampler import MinedBatchSampler
from profs_tf.sampling.hncm.selection import ClassMining
from profs_tf.sampling.plateau.sampler import PlateauBatchSampler
from profs_tf.sampling.projection_schedule import classes_in_batch, derive_steps_per_projection


def load_data(config: Config) -> tuple[ImageList, ImageList]:
    """Returns the image lists (train, test) of the configuration's data set.

    With `validation_classes` these are the two parts of the training classes; the test classes stay unused.

    Raises:
        ValueError: If the data set is unknown, or an option does not belong to it or does not fit it.
        FileNotFoundError: If the data is not there; the message says where to get it.
    """
    train, test = datasets.load(
        config.dataset,
        data_dir=config.data_dir,
        train_classes=_fraction_or_file(config.train_classes),
        allow_partial_data=config.allow_partial_data,
        download=config.download,
    )
    if config.validation_classes is None:
        return train, test
    return datasets.hold_out_classes(train, config.validation_classes)


def hold_out_for_projections(config: Config, train: ImageList) -> tuple[ImageList, Optional[ImageList]]:
    """Returns the classes that train, and those held out to end projections: None unless with CCP.

    Raises:
        ValueError: If there are too few classes, or no held-out class has two images.
    """
    if config.method != "ccp":
        return train, None
    try:
        train, held_out = datasets.hold_out_classes(train, config.ccp.validation_classes)
    except ValueError as error:
        message = str(error).replace("validation_classes", "ccp_validation_classes")
        if config.validation_classes is not None:
            message += (
                f" It splits the {train.num_classes} classes that "
                f"`validation_classes={config.validation_classes:g}` leaves to train: change one of the two."
            )
        raise ValueError(message) from error
    if max(held_out.class_sizes) < 2:
        raise ValueError(
            "`ccp_validation_classes` must hold out a class with two images, or none has another one to be "
            f"found, got {held_out.num_classes} classes of one image. Raise it."
        )
    return train, held_out


def _fraction_or_file(text: Optional[str]) -> Union[float, str, None]:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def build_preprocessing(config: Config, image_list: ImageList) -> Preprocessing:
    """Returns the data set's default preprocessing with what the configuration sets changed.

    The input size of a backbone that takes one size only replaces the default crop, and scales the default
    sizes before it.

    Raises:
        ValueError: If the sizes do not fit together, or the backbone cannot take such images.
    """
    backbone = backbones.get(config.backbone)
    default = preprocessing_for(image_list)
    if backbone.fixed_size is not None:
        default = _scaled(default, backbone.fixed_size)
    changes = {
        name: value
        for name, value in (
            ("resize", config.image_resize),
            ("crop", config.image_crop),
            ("shift", config.image_shift),
        )
        if value is not None
    }
    if "resize" in changes:
        changes.setdefault("crop", min(changes["resize"], backbone.fixed_size or changes["resize"]))
    backbone.check_image_size(changes.get("crop", default.crop))
    if config.augmentation != "crop":
        # Such crops move the image by themselves.
        changes.setdefault("shift", 0)
    return dataclasses.replace(
        default,
        mirror=config.mirror,
        augmentation=config.augmentation,
        color_jitter=config.color_jitter,
        erasing=config.erasing,
        aspect=config.image_aspect,
        **changes,
    )


def _scaled(preprocessing: Preprocessing, crop: int) -> Preprocessing:
    scale = crop / preprocessing.crop
    resize, shift = round(preprocessing.resize * scale), round(preprocessing.shift * scale)
    return dataclasses.replace(preprocessing, resize=resize, crop=crop, shift=shift)


class SamplingRules(NamedTuple):
    """What the method and the loss of a run require of its batches; arguments of `BatchSampler`."""

    steps_per_projection: Optional[int]
    """M; None: derived from the number of classes."""
    queries: str
    """Which images act as queries: "representatives" or "all"."""
    representative_reuse: bool = True
    """Whether the batches of a projection share its representatives."""
    ends_on_plateau: bool = False
    """Whether a plateau of the loss ends a projection."""


def sampling_rules(config: Config) -> SamplingRules:
    """Returns the rules of the batches (paper, section 5.3). Reads no data.

    Raises:
        ValueError: If the loss is unknown, or a batch would have no positive pair.
    """
    loss = losses.loss_class(config.loss)
    if config.xbm_size:
        losses.CrossBatchMemory.check_loss(loss, config.loss)
    if config.images_per_class == 1 and not loss.has_prototypes:
        raise ValueError(
            f"`images_per_class` must be >= 2 for the loss {config.loss}, got 1: a batch would have no "
            "positive pair."
        )
    if config.method == "ccp" and not loss.takes_candidates:
        known = ", ".join(losses.names_taking_candidates())
        raise ValueError(f"`loss` must be one of {known} with `method` ccp, got {config.loss}.")
    if loss.has_prototypes or config.method == "ccp":
        return SamplingRules(1, "all")
    if config.method == "baseline":
        return SamplingRules(1, loss.baseline_queries)
    on_plateau = config.projection_end == "plateau"
    if config.method == "proximal":
        return SamplingRules(config.steps_per_projection, loss.baseline_queries, False, on_plateau)
    return SamplingRules(config.steps_per_projection, "representatives", ends_on_plateau=on_plateau)


def build_sampler(config: Config, image_list: ImageList) -> BatchSampler:
    """Returns the sampler of the training batches."""
    rules = sampling_rules(config)
    common: dict[str, Any] = {
        "labels": image_list.labels,
        "batch_size": config.batch_size,
        "images_per_class": config.images_per_class,
        "seed": config.seed,
        "representative_uses": config.representative_uses,
        "representative_draw": config.representative_draw,
        "steps_per_projection": rules.steps_per_projection,
        "queries": rules.queries,
    }
    if config.mines_classes:
        mining = ClassMining(config.hard_classes_per_seed, config.mining_strategy)
        return MinedBatchSampler(**common, mining=mining, lag=config.mining_lag)
    common.update(representative_reuse=rules.representative_reuse, class_draw=config.class_draw)
    if rules.ends_on_plateau:
        return PlateauBatchSampler(**common, patience=config.projection_patience or 2, lag=config.mining_lag)
    return BatchSampler(**common)


@contextlib.contextmanager
def in_precision(precision: str) -> Iterator[None]:
    """Sets Keras's mixed precision policy, by name, for the layers and models built within."""
    before = tf.keras.mixed_precision.global_policy()
    tf.keras.mixed_precision.set_global_policy(precision)
    try:
        yield
    finally:
        tf.keras.mixed_precision.set_global_policy(before)


def build_embedder_for(config: Config) -> tf.keras.Model:
    """Returns the embedder, normalized as the loss expects if the configuration leaves it open."""
    normalized = losses.loss_class(config.loss).normalized_embeddings
    with in_precision(config.precision):
        return _embedder(config, normalized if config.normalize is None else config.normalize)


def _embedder(config: Config, normalize: bool) -> tf.keras.Model:
    return build_embedder(
        config.backbone,
        config.embedding_dim,
        normalize=normalize,
        pretrained=config.pretrained_weights,
        head=config.head,
        freeze_batch_norm=frozen_batch_norm(config),
        train_layers=config.train_layers,
        sync_batch_norm=config.sync_batch_norm,
        seed=config.seed,
    )


def build_best_embedder(config: Config, weights: Path) -> tf.keras.Model:
    """Returns the embedder of one replica with the weights that a run kept of its best epoch."""
    # The file of the weights that training started from may be gone.
    bare = dataclasses.replace(config, pretrained=None, freeze_batch_norm=frozen_batch_norm(config))
    embedder = build_embedder_for(bare)
    embedder.load_weights(str(weights)).expect_partial()
    return embedder


def build_model(
    config: Config,
    num_classes: int,
    steps_per_epoch: Optional[int] = None,
    embedder: Optional[tf.keras.Model] = None,
) -> ProfsModel:
    """Returns the compiled model of the embedder, or with `train_layers` head of its head on features.

    For several replicas to be called in the scope of their strategy.

    Args:
        config: Of the run.
        num_classes: L, of the training split.
        steps_per_epoch: For what changes after some steps or epochs.
        embedder: The whole embedder, whose layers the model shares; None builds one.
    """
    loss = build_loss(config, num_classes)
    if steps_per_epoch is not None:
        check_memory_is_used(loss, config.epochs * steps_per_epoch)
    if embedder is None:
        embedder = build_embedder_for(config)
    if config.train_layers == "head":
        embedder = split_at_head(embedder).head
    with in_precision(config.precision):
        proximal_weight = proximal_weight_of(config, num_classes, steps_per_epoch)
        return _compiled(config, ProfsModel(embedder, proximal_weight), loss, steps_per_epoch)


def proximal_weight_of(config: Config, num_classes: int, steps_per_epoch: Optional[int]) -> ProximalWeight:
    """Returns lambda: a number, or a schedule if it decays or the first projection has no pull."""
    weight: ProximalWeight = config.effective_proximal_weight
    if not weight:
        return weight
    if config.proximal_decay != 1.0:
        weight = tf.keras.optimizers.schedules.ExponentialDecay(
            weight, steps_per_epoch, config.proximal_decay, staircase=True
        )
    if config.first_projection_pull or config.method == "ccp":
        return weight
    steps_per_projection = sampling_rules(config).steps_per_projection or derive_steps_per_projection(
        num_classes,
        classes_in_batch(config.batch_size, config.images_per_class, num_classes),
        config.representative_uses,
    )
    return DelayedWeight(weight, steps_per_projection)


def _compiled(
    config: Config, model: ProfsModel, loss: losses.MetricLoss, steps_per_epoch: Optional[int]
) -> ProfsModel:
    optimizer = build_optimizer(config, model.embedder, loss, steps_per_epoch)
    # With mixed_float16 Keras scales the loss: it wraps this optimizer in a LossScaleOptimizer.
    model.compile(
        optimizer=optimizer,
        loss=loss,
        steps_per_execution=config.steps_per_execution,
        jit_compile=config.jit_compile,
    )
    return model
