"""Computes the pooled features of a list of images, once, for a head to start from or to train on.

Shapes: V views of an image, N images, B images in a batch, C features.
"""

import hashlib
from typing import Optional

import numpy as np
import tensorflow as tf

from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.cache import fingerprint, load_cached
from profs_tf.inputs.features import FeatureList
from profs_tf.inputs.preprocessing import Preprocessing
from profs_tf.models.inference import embed
from profs_tf.utils.files import expanded, write_once

# Part of the fingerprint: increase it when the same images and weights give other features.
_VERSION = 1


def pooled_features(
    backbone: tf.keras.Model,
    image_list: ImageList,
    preprocessing: Preprocessing,
    *,
    mirrored: bool = False,
    batch_size: int = 128,
    progress: str = "",
    cache_dir: Optional[str] = None,
) -> FeatureList:
    """Returns the features of all images under the evaluation preprocessing.

    Args:
        backbone: From images to pooled features [B, C], such as `EmbedderParts.features`. Of a model of
            several replicas each computes a part, and all workers must call this.
        image_list: N images.
        preprocessing: Of the embedder.
        mirrored: Whether the images flipped left to right are a second view.
        batch_size: Images at once.
        progress: Name of the work on the line that shows progress; "" shows none.
        cache_dir: Folder where the features are kept for other runs, under a fingerprint of images, weights
            and all else that they depend on. Not used by several replicas.
    """
    network = _with_mirrored_view(backbone) if mirrored else backbone

    def compute() -> np.ndarray:
        return embed(
            network, image_list, preprocessing=preprocessing, batch_size=batch_size, progress=progress
        )

    if cache_dir and backbone.distribute_strategy.num_replicas_in_sync == 1:
        sizes = f"{preprocessing.resize} {preprocessing.crop} {preprocessing.aspect} {batch_size} {mirrored}"
        name = fingerprint(image_list, f"{_VERSION} {tf.__version__} {sizes} {_model_sha256(backbone)}")
        path = expanded(cache_dir) / f"features-{name}.npy"
        write_once(path, lambda file: np.save(file, compute()))
        found = load_cached(path)
    else:
        found = compute()
    num_views = 2 if mirrored else 1
    # [N, V * C] -> [V, N, C]
    features = np.ascontiguousarray(found.reshape(len(found), num_views, -1).swapaxes(0, 1))
    return FeatureList(features, image_list.labels, tuple(image_list.class_names), image_list.is_query)


def _model_sha256(model: tf.keras.Model) -> str:
    digest = hashlib.sha256(model.to_json().encode())
    for weight in model.get_weights():
        digest.update(np.ascontiguousarray(weight).data)
    return digest.hexdigest()


def _with_mirrored_view(backbone: tf.keras.Model) -> tf.keras.Model:
    """Returns the model from images to [B, 2 * C]: the features of each image, then of its mirror image."""
    images = tf.keras.Input(backbone.input_shape[1:])
    views = [backbone(images), backbone(tf.reverse(images, axis=[2]))]
    return tf.keras.Model(images, tf.concat(views, axis=-1))
