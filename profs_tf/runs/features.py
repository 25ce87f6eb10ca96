"""Pooled features of a run's images: what its head starts from, and what head-only training reads."""

from __future__ import annotations

import dataclasses
import time

import tensorflow as tf

from profs_tf import backbones
from profs_tf.config import Config
from profs_tf.inputs.preprocessing import Preprocessing
from profs_tf.models.features import pooled_features
from profs_tf.models.head import HEAD_LAYER, split_at_head
from profs_tf.models.head_init import check_embedding_dim, start_by_whitening, whiten_head
from profs_tf.runs.images import RunImages
from profs_tf.runs.training_run import RunFeatures, TrainingRun


def with_head_init(config: Config, embedder: tf.keras.Model) -> Config:
    """Returns the configuration of a new run with the `head_init` that it leaves open, for config.json.

    The default is "pca" for linear heads of pretrained backbones with enough features.

    Raises:
        ValueError: If "pca" is asked for and there are fewer features than dimensions of the embedding.
    """
    if config.initial_run is not None:
        return config
    if config.head != "linear":
        return dataclasses.replace(config, head_init="random")
    num_features = embedder.get_layer(HEAD_LAYER).kernel.shape[0]
    if config.head_init == "pca":
        check_embedding_dim(config.embedding_dim, num_features)
    if config.head_init is not None:
        return config
    is_pretrained = backbones.get(config.backbone).is_pretrained(config.pretrained_weights)
    whitens = is_pretrained and config.embedding_dim <= num_features
    return dataclasses.replace(config, head_init="pca" if whitens else "random")


def start_head(run: TrainingRun) -> None:
    """Sets the head of a new run to the whitening of the training images' features, if it is to start so.

    Raises:
        ValueError: If features are not finite, or all equal.
    """
    config = run.config
    if config.head_init != "pca":
        return
    if run.features is not None:
        start_by_whitening(run.embedder, run.features.train.features[0])
    else:
        whiten_head(
            run.embedder,
            run.train_images,
            run.preprocessing,
            batch_size=config.batch_size,
            progress=run.progress != "none",
            cache_dir=config.cache_dir,
        )


def compute_features(
    config: Config,
    embedder: tf.keras.Model,
    run_images: RunImages,
    preprocessing: Preprocessing,
    shown: bool,
) -> RunFeatures:
    """Returns what head-only training reads: training images in two views if they are mirrored, test images.

    Args:
        config: Of the run.
        embedder: Of one replica.
        run_images: Of the run.
        preprocessing: Of the run.
        shown: Whether progress and time are printed.
    """
    backbone = split_at_head(embedder).features
    begin = time.monotonic()
    found = [
        pooled_features(
            backbone,
            images,
            preprocessing,
            mirrored=mirrored,
            batch_size=config.batch_size,
            progress=f"features of {name} images" if shown else "",
            cache_dir=config.cache_dir,
        )
        for name, images, mirrored in (
            # With the classes that CCP holds out: other methods then find them in --cache_dir.
            ("training", run_images.known, config.mirror),
            ("test", run_images.test, False),
        )
    ]
    if shown:
        total = sum(part.features.shape[0] * len(part) for part in found)
        print(f"features: {total:,} in {time.monotonic() - begin:.0f} seconds", flush=True)
    features = RunFeatures(*found)
    if run_images.projection is None:
        return features
    return features.held_out(run_images.train, run_images.projection)
