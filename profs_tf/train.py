"""The train command: `python -m profs_tf.train --flagfile=experiments/emoji.flags`."""

import dataclasses
from typing import Any

import tensorflow as tf
from absl import flags

from profs_tf.callbacks.profs import ProfsCallback
from profs_tf.callbacks.recall import RecallCallback
from profs_tf.cli import config_flags
from profs_tf.cli.command import run
from profs_tf.cli.exit_codes import USER_ERRORS, FailedRunError, InterruptedRunError
from profs_tf.cli.flag_types import define_flag
from profs_tf.config import Config
from profs_tf.datasets.image_list import ImageList
from profs_tf.distribution.collectives import part_size
from profs_tf.distribution.strategy import (
    LostWorkerError,
    agree,
    folder_to_write,
    is_chief,
    lost_workers_named,
    make_strategy,
)
from profs_tf.inputs.cache import cached
from profs_tf.inputs.decoding import unreadable_files_named
from profs_tf.inputs.pipeline import train_pipeline
from profs_tf.models.profs_model import ProfsModel
from profs_tf.runs.checkpoint import RunCheckpoint, TrainingInterruptedError
from profs_tf.runs.directory import RunFolder
from profs_tf.runs.factory import build_model, build_preprocessing, build_sampler, load_data, sampling_rules
from profs_tf.runs.finalize import finish
from profs_tf.runs.log import RunLog
from profs_tf.runs.loop import fit_from_step, progress_callbacks
from profs_tf.runs.warm_start import find_initial_run, load_initial_weights
from profs_tf.sampling.batch_sampler import BatchSampler
from profs_tf.visual.tensorboard import EmbeddingBoard

USAGE = """train: train an image embedding with PROFS and report how well it retrieves classes it never saw.

  python -m profs_tf.train --flagfile=experiments/emoji.flags
  python -m profs_tf.train --flagfile=experiments/emoji.flags --output_dir=runs/baseline --method=baseline
  python -m profs_tf.train --flagfile=experiments/cub.flags --data_dir=/data/CUB_200_2011
  python -m profs_tf.train --flagfile=experiments/emoji.flags --output_dir=runs/on --initial_run=runs/emoji
  python -m profs_tf.train --output_dir=runs/emoji --resume
  python -m profs_tf.train --flagfile=experiments/emoji.flags --output_dir=runs/gpus --distribute=mirrored

Writes into --output_dir: config.json (every value of the run), log.csv and tensorboard/ (a row an epoch),
checkpoints/ (the whole state, for --resume), best/ (weights of the best epoch), embedder/ (its SavedModel),
metrics.json and learning_curves.png. Ctrl-C saves and stops; --resume goes on as if nothing had happened."""

# What may differ from the saved run when it is resumed.
_CHANGEABLE = ("output_dir", "epochs", "data_dir", "cache", "cache_dir", "distribute", "cpu_replicas")
_KERAS_VERBOSITY = {"bar": 1, "line": 2, "tqdm": 0, "none": 0}


def define_flags(values: flags.FlagValues) -> None:
    """Defines the flags of this command."""
    config_flags.define(values)
    define_flag(values, "resume", bool, False, "Go on with the run in --output_dir.")
    define_flag(
        values, "progress", str, "bar", "What is shown while training.", choices=tuple(_KERAS_VERBOSITY)
    )


def main(values: flags.FlagValues) -> None:
    """Trains by the flags."""
    given = config_flags.given(values)
    folder = RunFolder(given.get("output_dir", ""))
    config = resumed_config(folder.read_config(), given) if values.resume else Config(**given)
    if unused := config_flags.unused(config, given):
        print(unused, flush=True)
    try:
        with unreadable_files_named():
            train(config, folder, resume=values.resume, progress=values.progress)
    except USER_ERRORS:
        folder.discard_unless_trained()
        raise


def resumed_config(saved: Config, given: dict[str, Any]) -> Config:
    """Returns the saved configuration with what may change taken from the flags.

    Raises:
        ValueError: if another flag differs from the saved run.
    """
    for name, value in given.items():
        if name in _CHANGEABLE:
            continue
        asked = getattr(dataclasses.replace(saved, **{name: value}), name)
        if asked != getattr(saved, name):
            raise ValueError(
                f"`{name}` must stay {getattr(saved, name)} when a run is resumed, got {asked}. "
                "Leave the flag out, or begin another run in another folder."
            )
    return dataclasses.replace(saved, **{name: given[name] for name in _CHANGEABLE if name in given})


def train(config: Config, folder: RunFolder, resume: bool = False, progress: str = "bar") -> dict[str, Any]:
    """Trains, evaluates and exports; returns what is written to metrics.json.

    Raises:
        ValueError: if a value does not fit the data.
        InterruptedRunError: if a signal stopped the run; its state is saved.
        FailedRunError: if another worker was lost.
    """
    sampling_rules(config)
    # Before anything else of TensorFlow.
    strategy = make_strategy(config.distribute, config.cpu_replicas)
    make_reproducible(config.seed)
    try:
        with lost_workers_named(strategy), folder_to_write(strategy, folder.path) as path:
            own = folder if path == folder.path else RunFolder(path)
            return train_with(strategy, config, folder, own, resume, progress)
    except LostWorkerError as error:
        raise FailedRunError(
            f"{error} Start all workers again with --output_dir={folder.path} --resume."
        ) from error


def train_with(
    strategy: tf.distribute.Strategy,
    config: Config,
    shared: RunFolder,
    folder: RunFolder,
    resume: bool,
    progress: str,
) -> dict[str, Any]:
    """Trains with the replicas of a strategy.

    Args:
        strategy: of one replica or several.
        config: of the run.
        shared: the run's folder, to resume from.
        folder: where this process writes: the chief into the run's folder.
        resume: whether to go on with a run.
        progress: what is shown while training.

    Returns:
        What is written to metrics.json; of several workers on the chief only.
    """
    chief = is_chief(strategy)
    progress = progress if chief else "none"
    initial_run = None if resume else find_initial_run(config)
    train_images, test_images = load_data(config)
    check_ks(config.ks, len(test_images))
    preprocessing = build_preprocessing(config, train_images)
    sampler = build_sampler(config, train_images)
    steps_per_epoch = config.steps_per_epoch or len(sampler)
    sampler.schedule.check_strides(config.steps_per_execution, steps_per_epoch)
    part_size(strategy, sampler.batch_size)
    with strategy.scope():
        model = build_model(config, sampler.num_classes, steps_per_epoch)
    folder.check_space(model.embedder.count_params())
    if not resume:
        folder.create(config)
    if initial_run is not None:
        folder.write_origin(initial_run.read_origin())
    train_images, test_images = (
        cached(images, preprocessing, config.cache, config.cache_dir, progress=progress != "none")
        for images in (train_images, test_images)
    )

    shown = config.tensorboard != "none"
    events = (
        tf.summary.create_file_writer(str(folder.tensorboard)) if shown else tf.summary.create_noop_writer()
    )
    board = EmbeddingBoard(folder.tensorboard, events, test_images, config.tensorboard)
    recall = RecallCallback(
        test_images,
        config.ks,
        preprocessing=preprocessing,
        batch_size=config.batch_size,
        every_epochs=config.evaluate_every,
        clustering=config.clustering,
        seed=config.seed,
        best_weights_path=str(folder.best_weights),
        evaluate_untrained=True,
        patience=config.patience,
        verbose=chief,
        on_embeddings=lambda epoch, embeddings: board.write(epoch * steps_per_epoch, embeddings),
        last_epoch=config.epochs,
    )
    log = RunLog(folder.log, events, sampler.batch_size, recall)
    projections = ProfsCallback(sampler)
    checkpoint = RunCheckpoint(
        folder.checkpoints,
        model,
        {"recall": recall, "projections": projections},
        config.checkpoint_every_steps,
        restore_from=shared.checkpoints,
    )
    if resume and not checkpoint.restore() and chief:
        print(f"{shared.path} has no checkpoint yet: beginning at step 0.")
    if not model.steps_taken and (initial_run := find_initial_run(config)) is not None:
        load_initial_weights(model.embedder, initial_run.best_weights)
    agree(strategy, "step", model.steps_taken)
    check_epochs(config.epochs, model.steps_taken, steps_per_epoch)
    if resume and chief:
        # A later --resume without the flags goes on with what they changed now.
        folder.write_config(config)
    log.keep_epochs(model.steps_taken // steps_per_epoch)
    if chief:
        describe(config, train_images, test_images, sampler, model, steps_per_epoch)

    # Checkpoints come last: they save what the others did at the end of an epoch.
    callbacks = [projections, recall, log, *progress_callbacks(progress), checkpoint]
    pipeline = train_pipeline(train_images, sampler, preprocessing, strategy=strategy)
    try:
        with checkpoint.saving_on_signals():
            fit_from_step(
                model, pipeline, config.epochs, steps_per_epoch, callbacks, verbose=_KERAS_VERBOSITY[progress]
            )
    except TrainingInterruptedError as error:
        raise InterruptedRunError(f"{error} Go on with --output_dir={shared.path} --resume.") from error
    if not recall.best:
        # A run that an earlier version ended without an evaluation: there is something to export now.
        recall.set_model(model)
        recall.on_epoch_end(config.epochs - 1)
    metrics = (
        finish(config, folder, model, sampler, recall, log, preprocessing, test_images, board)
        if chief
        else {}
    )
    # The others wait for the chief: who leaves early is taken for lost.
    agree(strategy, "step", model.steps_taken)
    return metrics


def make_reproducible(seed: int) -> None:
    """Seeds TensorFlow, NumPy and Python, and keeps TensorFlow to kernels that always give the same bits."""
    tf.keras.utils.set_random_seed(seed % 2**32)
    tf.config.experimental.enable_op_determinism()


def check_ks(ks: tuple[int, ...], num_test_images: int) -> None:
    """Refuses a K before training that evaluation would refuse after the first epoch."""
    if max(ks) >= num_test_images:
        raise ValueError(f"`ks` must be below the {num_test_images} images of the test split, got {max(ks)}.")


def check_epochs(epochs: int, steps_taken: int, steps_per_epoch: int) -> None:
    """Refuses to end a resumed run before where it is."""
    begun = -(-steps_taken // steps_per_epoch)
    if epochs < begun:
        raise ValueError(
            f"`epochs` must be >= {begun} to go on with this run, which has taken {steps_taken} steps of "
            f"{steps_per_epoch} an epoch, got {epochs}. Raise it, or leave the flag out."
        )


def describe(
    config: Config,
    train_images: ImageList,
    test_images: ImageList,
    sampler: BatchSampler,
    model: ProfsModel,
    steps_per_epoch: int,
) -> None:
    """Prints what is about to be trained, on what."""
    devices = ", ".join(device.name.split(":", 1)[1] for device in tf.config.get_visible_devices())
    number = model.distribute_strategy.num_replicas_in_sync
    if number > 1:
        devices += f" ({number} replicas, {sampler.batch_size // number} images of a batch each)"
    weights = f", first those of {config.initial_run}" if config.initial_run is not None else ""
    print(
        f"{config.method} with the {config.loss} loss, {config.backbone} on {devices}, "
        f"{model.embedder.count_params():,} weights{weights}\n"
        f"training: {len(train_images):,} images of {train_images.num_classes:,} classes, "
        f"unseen: {len(test_images):,} images of {test_images.num_classes:,} classes\n"
        f"batches of {sampler.batch_size}: {sampler.classes_per_batch} classes x {sampler.images_per_class} "
        f"images, M = {sampler.steps_per_projection} steps a projection, "
        f"lambda = {config.effective_proximal_weight:g}\n"
        f"{config.epochs} epochs of {steps_per_epoch} steps, beginning at step {model.steps_taken}",
        flush=True,
    )


if __name__ == "__main__":
    run(main, define_flags, USAGE)
