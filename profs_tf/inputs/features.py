"""Batches of features that a frozen backbone computed once, in place of batches of images.

Shapes: V views of an image, N images, C features, B images in a batch.

View 0 is the image under the evaluation preprocessing, view 1, if any, the same mirrored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Optional

import numpy as np
import tensorflow as tf

from profs_tf.sampling import random_streams
from profs_tf.sampling.batch_sampler import BatchSampler


@dataclass(frozen=True, eq=False)
class FeatureList:
    """The pooled features of a list of images.

    Attributes:
        features: float32 [V, N, C].
        labels: int64 [N], as in the `ImageList`.
        class_names: As in the `ImageList`.
        is_query: As in the `ImageList`.
    """

    features: np.ndarray
    labels: np.ndarray
    class_names: tuple[str, ...]
    is_query: Optional[np.ndarray] = None

    def __len__(self) -> int:
        return self.features.shape[1]

    def of_classes(self, class_names: Sequence[str]) -> FeatureList:
        """Returns the features of some classes, in their present order, with the classes renumbered."""
        numbers = np.full(len(self.class_names), -1, np.int64)
        numbers[[self.class_names.index(name) for name in class_names]] = np.arange(len(class_names))
        part = self.take(np.flatnonzero(numbers[self.labels] >= 0))
        return dataclasses.replace(part, labels=numbers[part.labels], class_names=tuple(class_names))

    def take(self, indices: np.ndarray) -> FeatureList:
        """Returns the features at indices [M], in that order; classes keep their index and name."""
        is_query = None if self.is_query is None else self.is_query[indices]
        return FeatureList(self.features[:, indices], self.labels[indices], self.class_names, is_query)

    @property
    def num_candidates(self) -> int:
        """As of the `ImageList`."""
        return len(self) - (1 if self.is_query is None else int(self.is_query.sum()))


def feature_pipeline(
    features: FeatureList,
    sampler: BatchSampler,
    prefetch: int = 8,
    fix_representative_augmentation: bool = False,
) -> tf.data.Dataset:
    """Returns the infinite dataset of the sampler's batches, starting at ``sampler.first_step``.

    The view of each image is a pure function of (seed, step, position in the batch), as augmentation is; that
    of representatives may be one of (seed, projection, class).

    Args:
        features: Of the training images that the sampler's indices refer to.
        sampler: Draws the indices of every step.
        prefetch: Number of batches prepared ahead.
        fix_representative_augmentation: Whether a representative keeps its view throughout its projection; of
            no effect if the batches of a projection do not share them.

    Returns:
        Elements ``(features, labels, is_representative)``: float32 [B, C], int64 [B], float32 [B].

    Raises:
        ValueError: If the sampler was made for another number of images.
    """
    if len(features) != sampler.table.num_images:
        raise ValueError(
            f"`sampler` must be made from these features' labels: it knows {sampler.table.num_images} "
            f"images, the list has {len(features)}."
        )
    size = sampler.batch_size
    dataset = tf.data.Dataset.from_generator(
        lambda: _batches(features, sampler, fix_representative_augmentation),
        output_signature=(
            tf.TensorSpec([size, features.features.shape[-1]], tf.float32),
            tf.TensorSpec([size], tf.int64),
            tf.TensorSpec([size], tf.float32),
        ),
    ).prefetch(prefetch)
    # Otherwise Keras would run an infinite first epoch instead of asking for `steps_per_epoch`.
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))
    # `fit` compares it with the callback's.
    dataset.sampler = sampler
    return dataset


def _batches(
    features: FeatureList, sampler: BatchSampler, fix_representatives: bool
) -> Iterator[tuple[np.ndarray, ...]]:
    num_views = len(features.features)
    for batch in sampler:
        random = random_streams.generator(sampler.seed, random_streams.VIEW, batch.step)
        views = random.integers(num_views, size=len(batch.indices))
        if fix_representatives and sampler.shares_representatives:
            k, classes = batch.projection_index, batch.labels[: sampler.classes_per_batch]
            random = random_streams.generator(sampler.seed, random_streams.REPRESENTATIVE_VIEW, k)
            views[: len(classes)] = random.integers(num_views, size=sampler.num_classes)[classes]
        yield features.features[views, batch.indices], batch.labels, batch.is_representative
