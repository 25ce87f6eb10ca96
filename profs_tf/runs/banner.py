"""What a run prints before its first step."""

import tensorflow as tf

from profs_tf.runs.fine_tuning import frozen_batch_norm
from profs_tf.runs.training_run import TrainingRun
from profs_tf.sampling.plateau.sampler import PlateauBatchSampler


def banner(run: TrainingRun) -> str:
    """Returns a few lines: model and devices, data, batches and projections, length."""
    config, sampler = run.config, run.sampler
    devices = ", ".join(device.name.split(":", 1)[1] for device in tf.config.get_visible_devices())
    replicas = run.strategy.num_replicas_in_sync
    if replicas > 1:
        devices += f" ({replicas} replicas, {sampler.batch_size // replicas} images of a batch each)"
    frozen = {"statistics": "statistics", "all": "all of it"}.get(frozen_batch_norm(config))
    batch_norm = "" if frozen is None else f"\nfrozen batch normalization: {frozen}"
    return (
        f"{config.method} with the {config.loss} loss{config.memory_note}, {config.backbone} on {devices}, "
        f"{run.embedder.count_params():,} weights\n"
        f"weights: {run.folder.read_origin()}{batch_norm}\n"
        f"head: {_head(run)}\n"
        f"training: {len(run.train_images):,} images of {run.train_images.num_classes:,} classes, "
        f"{_tested(run)}\n"
        f"batches of {sampler.batch_size}: {sampler.classes_per_batch} classes x {sampler.images_per_class} "
        f"images, {_projections(run)}, "
        f"lambda = {config.effective_proximal_weight:g}\n"
        f"{config.epochs} epochs of {run.steps_per_epoch} steps, beginning at step {run.model.steps_taken}"
    )


def _projections(run: TrainingRun) -> str:
    steps = run.sampler.steps_per_projection
    if run.projection_images is not None:
        held_out = f"{run.projection_images.num_classes:,} training classes held out for it"
        evaluations = run.config.epochs // run.config.evaluate_every
        # The first one is the best so far.
        ends = evaluations > run.config.ccp.patience
        none = (
            "" if ends else f" (none ends: {evaluations} evaluations, ccp_patience {run.config.ccp.patience})"
        )
        return f"projections that end on a plateau of MAP@R on {held_out}{none}"
    if isinstance(run.sampler, PlateauBatchSampler):
        return f"projections that end on a plateau of the loss, after {steps} steps at the latest"
    return f"M = {steps} steps a projection"


def _head(run: TrainingRun) -> str:
    config = run.config
    start = {"random": "random", "pca": "PCA whitening of the training images' features"}
    trained = {
        "all": "the whole network trains",
        "head": "trains alone, on features that are computed once",
    }.get(config.train_layers, f"trains with the {config.train_layers} layers of the backbone")
    if config.head_init is None:
        return f"{config.head}, {trained}"
    return f"{config.head}, started as {start[config.head_init]}; {trained}"


def _tested(run: TrainingRun) -> str:
    images = f"{len(run.test_images):,} images of {run.test_images.num_classes:,} classes"
    if run.test_images.is_query is not None:
        images += f" ({int(run.test_images.is_query.sum()):,} queries, the others their gallery)"
    if not run.num_shared_classes:
        return f"unseen: {images}"
    return f"test: {images}, {run.num_shared_classes:,} of which also train and are not unseen"
