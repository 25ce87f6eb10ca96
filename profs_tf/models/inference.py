"""Embeds a list of images with a Keras embedder.

Shapes: N images, B images in a batch, C pooled features, D embedding dimension.
"""

import functools
from collections.abc import Callable
from typing import Any, Optional, Union

import numpy as np
import tensorflow as tf

from profs_tf.datasets.image_list import ImageList
from profs_tf.distribution import collectives
from profs_tf.inputs.features import FeatureList
from profs_tf.inputs.pipeline import evaluation_pipeline
from profs_tf.inputs.preprocessing import Preprocessing
from profs_tf.utils.progress import Progress


def embed(
    embedder: tf.keras.Model,
    image_list: Union[ImageList, FeatureList],
    *,
    preprocessing: Optional[Preprocessing] = None,
    batch_size: int = 128,
    progress: str = "",
) -> np.ndarray:
    """Returns the embeddings of all images in order, float32 [N, D], under the evaluation preprocessing.

    Args:
        embedder: Keras model from uint8 images [B, H, W, 3] to [B, D]; of several replicas each embeds a
            part, and all workers must call this. For a `FeatureList` the head alone, from features [B, C].
        image_list: N images, or their features, of which view 0 is taken.
        preprocessing: None takes `preprocessing_for(image_list)`.
        batch_size: Images embedded at once.
        progress: Name of the work on the line that shows progress; "" shows none.
    """
    if isinstance(image_list, FeatureList):
        return np.asarray(embedder.predict(image_list.features[0], batch_size, verbose=0), np.float32)
    strategy = embedder.distribute_strategy
    dataset = evaluation_pipeline(image_list, preprocessing, batch_size, strategy)
    with Progress(progress, len(image_list), bool(progress)) as bar:
        if strategy.num_replicas_in_sync > 1:
            return _embed_in_parts(embedder, dataset, bar)[: len(image_list)]
        advance = tf.keras.callbacks.LambdaCallback(
            on_predict_batch_end=lambda batch, logs: bar.advance(units=batch_size)
        )
        return np.asarray(embedder.predict(dataset, verbose=0, callbacks=[advance]), np.float32)


def _embed_in_parts(
    embedder: tf.keras.Model, dataset: tf.distribute.DistributedDataset, bar: Progress
) -> np.ndarray:
    """Returns the embeddings of all images, computed in turn by all replicas, the same on all workers."""
    collectives.average_statistics(embedder)
    embed_batch = _batch_embedding(embedder)
    parts = []
    for images in dataset:
        parts.append(np.asarray(embed_batch(images), np.float32))
        bar.advance(units=len(parts[-1]))
    return np.concatenate(parts)


@functools.lru_cache(maxsize=1)
def _batch_embedding(embedder: tf.keras.Model) -> Callable[[Any], tf.Tensor]:
    """Returns the compiled function from the replicas' images to all their embeddings; the last is kept."""

    @tf.function(reduce_retracing=True)
    def embed_batch(images: Any) -> tf.Tensor:
        return collectives.gather(
            embedder.distribute_strategy, lambda part: embedder(part, training=False), images
        )

    return embed_batch
