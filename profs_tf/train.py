"""The train command: `python -m profs_tf.train --flagfile=experiments/emoji.flags`."""

from typing import Any

import tensorflow as tf
from absl import flags

from profs_tf.cli import config_flags
from profs_tf.cli.command import run as run_command
from profs_tf.cli.exit_codes import USER_ERRORS, FailedRunError, InterruptedRunError
from profs_tf.cli.flag_types import check_values, define_flag
from profs_tf.config import Config
from profs_tf.distribution.collectives import per_replica_batch_size
from profs_tf.distribution.strategy import (
    LostWorkerError,
    check_same_on_workers,
    is_chief,
    lost_workers_explained,
    make_strategy,
    writable_folder,
)
from profs_tf.inputs.decoding import naming_unreadable_files
from profs_tf.inputs.features import feature_pipeline
from profs_tf.inputs.pipeline import train_pipeline
from profs_tf.metrics.arguments import check_ks
from profs_tf.models.non_finite import NonFiniteLossError
from profs_tf.runs.banner import banner
from profs_tf.runs.checkpoint import TrainingInterruptedError
from profs_tf.runs.directory import RunFolder
from profs_tf.runs.factory import (
    build_embedder_for,
    build_model,
    build_preprocessing,
    build_sampler,
    sampling_rules,
)
from profs_tf.runs.features import compute_features, with_head_init
from profs_tf.runs.finalize import export_best
from profs_tf.runs.fine_tuning import with_frozen_batch_norm
from profs_tf.runs.images import load_images
from profs_tf.runs.loop import PROGRESS, fit_from_step, progress_for_output
from profs_tf.runs.loss import set_factors
from profs_tf.runs.paths import with_absolute_paths
from profs_tf.runs.provenance import with_weights_file
from profs_tf.runs.resume import restore_state, resumed_config
from profs_tf.runs.training_run import RunCallbacks, TrainingRun, build_callbacks
from profs_tf.runs.warm_start import find_initial_run
from profs_tf.utils.forks import check_not_forked

USAGE = """train: train an image embedding with PROFS and report how well it retrieves unseen classes.

  python -m profs_tf.train --flagfile=experiments/emoji.flags
  python -m profs_tf.train --flagfile=experiments/emoji.flags --output_dir=runs/baseline --method=baseline
  python -m profs_tf.train --dataset=folder:PICTURES --output_dir=runs/mine --backbone=efficientnet_lite0 \\
      --pretrained=imagenet --loss=proxy_nca --method=baseline --learning_rate=1e-4
  python -m profs_tf.train --flagfile=experiments/cub.flags --data_dir=/data/CUB_200_2011 --pretrained=FILE
  python -m profs_tf.train --flagfile=experiments/emoji.flags --output_dir=runs/on --initial_run=runs/emoji
  python -m profs_tf.train --output_dir=runs/emoji --resume
  python -m profs_tf.train --flagfile=experiments/emoji.flags --output_dir=runs/gpus --distribute=mirrored

Writes into --output_dir: config.json (every option of the run), log.csv and tensorboard/ (one row per epoch),
checkpoints/ (the whole state, for --resume), best/ (weights of the best epoch), embedder/ (its SavedModel),
metrics.json and learning_curves.png. Ctrl-C saves and stops; --resume continues bit for bit."""


def define_flags(values: flags.FlagValues) -> None:
    """Defines the flags of this command."""
    config_flags.define(values)
    group = config_flags.MOST_NEEDED
    define_flag(values, "resume", bool, False, "Resume the run in --output_dir.", group=group)
    text = "What is shown while training. Where the output is no terminal, lines in place of bars."
    define_flag(values, "progress", str, "bar", text, PROGRESS, "Evaluation")


def main(values: flags.FlagValues) -> None:
    """Trains a new run, or resumes one."""
    check_values(values, least={}, folders=("output_dir", "cache_dir"))
    folder = RunFolder(values.output_dir if values["output_dir"].present else "")
    saved = folder.read_config() if values.resume else None
    given = config_flags.given(values, Config.loss if saved is None else saved.loss)
    config = with_absolute_paths(Config(**given)) if saved is None else resumed_config(saved, given)
    if unused := config_flags.unused(config, given):
        print(unused, flush=True)
    try:
        with naming_unreadable_files():
            train(config, folder, resume=values.resume, progress=values.progress)
    except USER_ERRORS:
        folder.discard_unless_trained()
        raise


def train(config: Config, folder: RunFolder, resume: bool = False, progress: str = "bar") -> dict[str, Any]:
    """Trains, evaluates and exports.

    Returns:
        What is written to metrics.json; for several workers on the chief only.

    Raises:
        ValueError: If an option does not fit the data.
        InterruptedRunError: If a signal stopped the run; its state is saved.
        FailedRunError: If another worker was lost.
        ForkedProcessError: If TensorFlow cannot work in this process.
    """
    check_not_forked()
    # Before anything else of TensorFlow.
    strategy = make_strategy(config.distribute, config.cpu_replicas)
    make_reproducible(config.seed)
    try:
        with lost_workers_explained(strategy), writable_folder(strategy, folder.path) as path:
            own = folder if path == folder.path else RunFolder(path, shared=folder)
            run, callbacks = prepare(config, strategy, own, resume, progress)
            fit(run, callbacks)
            return finalize(run, callbacks)
    except LostWorkerError as error:
        raise FailedRunError(
            f"{error} Start all workers again with --output_dir={folder.path} --resume."
        ) from error


def prepare(
    config: Config, strategy: tf.distribute.Strategy, folder: RunFolder, resume: bool, progress: str
) -> tuple[TrainingRun, RunCallbacks]:
    """Builds a run and its callbacks, in the state that training starts or resumes from."""
    progress = progress_for_output(progress) if is_chief(strategy) else "none"
    run = build_run(config, strategy, folder, resume, progress)
    callbacks = build_callbacks(run)
    restore_state(run, callbacks, resume)
    return run, callbacks


def build_run(
    config: Config, strategy: tf.distribute.Strategy, folder: RunFolder, resume: bool, progress: str
) -> TrainingRun:
    """Builds the parts of a run. What can be checked is checked before pictures are decoded."""
    # Whether the loss fits the batches is known before any data is read.
    sampling_rules(config)
    initial_run = None if resume else find_initial_run(config)
    images = load_images(config)
    if not resume:
        config = with_weights_file(config)
        config = with_frozen_batch_norm(config, None if initial_run is None else initial_run.read_config())
    check_ks(config.ks, images.test.num_candidates)
    preprocessing = build_preprocessing(config, images.train)
    # Draws the representatives of each projection of M steps, and the batches around them.
    sampler = build_sampler(config, images.train)
    steps_per_epoch = config.steps_per_epoch or len(sampler)
    sampler.schedule.check_strides(config.steps_per_execution, steps_per_epoch)
    per_replica_batch_size(strategy, sampler.batch_size)
    # The embedder with its weights theta, the loss, and the pull towards the anchor theta^(k).
    with strategy.scope():
        embedder = build_embedder_for(config)
        model = build_model(config, sampler.num_classes, steps_per_epoch, embedder)
    folder.check_space(embedder.count_params())
    if not resume:
        config = with_head_init(config, embedder)
        folder.create(config)
    if initial_run is not None:
        folder.write_origin(initial_run.read_origin())
    shown = progress != "none"
    images = images.cached(config, preprocessing, shown)
    features = None
    if config.train_layers == "head":
        features = compute_features(config, embedder, images, preprocessing, shown)
    return TrainingRun(
        config,
        strategy,
        folder,
        images.train,
        images.test,
        preprocessing,
        sampler,
        embedder,
        model,
        steps_per_epoch,
        progress,
        images.projection,
        features,
    )


def fit(run: TrainingRun, callbacks: RunCallbacks) -> None:
    """Alternates projections: new representatives, the anchor at the current weights, then M steps.

    `callbacks.projections` sets the anchor before every M-th step; `ProfsModel.train_step` takes the steps on
    the batches that `run.sampler` draws.

    Raises:
        InterruptedRunError: If a signal stopped training; its state is saved.
        NonFiniteLossError: If a step computes infinite or NaN values.
    """
    if run.is_chief:
        print(banner(run), flush=True)
    fixed = {"fix_representative_augmentation": run.config.fix_representative_augmentation}
    if run.features is not None:
        batches = feature_pipeline(run.features.train, run.sampler, **fixed)
    else:
        images, strategy = run.train_images, run.strategy
        batches = train_pipeline(images, run.sampler, run.preprocessing, strategy=strategy, **fixed)
    try:
        with callbacks.checkpoint.saving_on_signals():
            if callbacks.recall.patience_is_spent:
                if run.is_chief:
                    print(
                        f"The run ended by --patience={run.config.patience}; a higher one trains on.",
                        flush=True,
                    )
            else:
                fit_from_step(
                    run.model,
                    batches,
                    run.config.epochs,
                    run.steps_per_epoch,
                    callbacks.in_order(run.progress),
                    run.progress,
                )
    except NonFiniteLossError as error:
        raise NonFiniteLossError(error.term, error.step, set_factors(run.config)) from error
    except TrainingInterruptedError as error:
        raise InterruptedRunError(
            f"{error} Resume with --output_dir={run.folder.shared.path} --resume."
        ) from error


def finalize(run: TrainingRun, callbacks: RunCallbacks) -> dict[str, Any]:
    """Exports the embedder of the best epoch; returns the metrics, on the chief only."""
    if not callbacks.recall.best:
        # A run that an earlier version ended without an evaluation still has a last epoch to export.
        callbacks.recall.set_model(run.model)
        callbacks.recall.on_epoch_end(run.config.epochs - 1)
    metrics = export_best(run, callbacks) if run.is_chief else {}
    # The other workers wait for the chief: a worker that exits early is treated as lost.
    check_same_on_workers(run.strategy, "step", run.model.steps_taken)
    return metrics


def make_reproducible(seed: int) -> None:
    """Seeds TensorFlow, NumPy and Python, and restricts TensorFlow to deterministic kernels."""
    tf.keras.utils.set_random_seed(seed % 2**32)
    tf.config.experimental.enable_op_determinism()
    # Dropout then draws from variables, which checkpoints can hold.
    tf.keras.backend.experimental.enable_tf_random_generator()


if __name__ == "__main__":
    run_command(main, define_flags, USAGE)
