"""Embeds a list of images with a Keras embedder.

Shapes: N images, B images in a batch, D embedding dimension.
"""

import functools
from collections.abc import Callable
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from profs_tf.datasets.image_list import ImageList
from profs_tf.distribution import collectives
from profs_tf.inputs.pipeline import evaluation_pipeline
from profs_tf.inputs.preprocessing import Preprocessing


def embed(
    embedder: tf.keras.Model,
    image_list: ImageList,
    *,
    preprocessing: Optional[Preprocessing] = None,
    batch_size: int = 128,
    progress: bool = False,
) -> np.ndarray:
    """Returns the embeddings of all images in order, float32 [N, D], under the evaluation preprocessing.

    Args:
        embedder: Keras model from uint8 images [B, H, W, 3] to [B, D]. One of several replicas has each embed
            a part; all workers must call then, and all get the whole.
        image_list: N images.
        preprocessing: None takes `images.preprocessing_for(image_list)`.
        batch_size: images embedded at once.
        progress: whether to show a progress bar, where there is one replica.
    """
    strategy = embedder.distribute_strategy
    dataset = evaluation_pipeline(image_list, preprocessing, batch_size, strategy)
    if strategy.num_replicas_in_sync > 1:
        return _embed_in_parts(embedder, dataset)[: len(image_list)]
    return np.asarray(embedder.predict(dataset, verbose=1 if progress else 0), np.float32)


def _embed_in_parts(embedder: tf.keras.Model, dataset: tf.distribute.DistributedDataset) -> np.ndarray:
    """Returns the embeddings of all images, computed in turn by all replicas, the same on all workers."""
    collectives.average_statistics(embedder)
    embed_batch = _batch_embedding(embedder)
    return np.concatenate([np.asarray(embed_batch(images), np.float32) for images in dataset])


@functools.lru_cache(maxsize=1)
def _batch_embedding(embedder: tf.keras.Model) -> Callable[[Any], tf.Tensor]:
    """Returns the compiled function from the replicas' images to all their embeddings; the last is kept."""

    @tf.function(reduce_retracing=True)
    def embed_batch(images: Any) -> tf.Tensor:
        return collectives.gather(
            embedder.distribute_strategy, lambda part: embedder(part, training=False), images
        )

    return embed_batch
