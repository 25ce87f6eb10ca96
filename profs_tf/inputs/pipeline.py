"""The tf.data pipelines: the sampler's indices, then the images loaded in parallel.

Only image indices pass through a Python generator; a batch of pixels would cost 20 to 40 times as much there.
With several replicas every process draws the same batches of indices, and selects the rows of its own
replicas before any image is loaded.

Shapes: B images per batch, each uint8 [H, W, 3]; R replicas with b = B / R images each.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any, Optional, Union

import numpy as np
import tensorflow as tf

from profs_tf.datasets.image_list import ImageList
from profs_tf.distribution.collectives import per_replica_batch_size
from profs_tf.inputs import preprocessing as image_ops
from profs_tf.inputs.decoding import image_dataset
from profs_tf.inputs.preprocessing import Preprocessing
from profs_tf.sampling.batch_sampler import BatchIndices, BatchSampler

# Folded into the sampler's seed, so that augmentation and sampling use different random numbers.
_AUGMENTATION = 0x5EED
# Images in memory of up to this many bytes become a TensorFlow constant, which tf.data copies again for each
# iterator. Of larger arrays, single images are passed as they are needed.
_LARGEST_COPY = 2**28
# The functions of a pipeline have no control flow that depends on tensors: AutoGraph would only take time.
_as_it_is = tf.autograph.experimental.do_not_convert


def train_pipeline(
    image_list: ImageList,
    sampler: BatchSampler,
    preprocessing: Optional[Preprocessing] = None,
    prefetch: int = 2,
    strategy: Optional[tf.distribute.Strategy] = None,
    fix_representative_augmentation: bool = False,
) -> Union[tf.data.Dataset, tf.distribute.DistributedDataset]:
    """Returns the infinite dataset of the sampler's batches, starting at ``sampler.first_step``.

    Deterministic: augmentation is a pure function of (seed, step, position in the batch), so the batch of a
    step is the same in every run and after resuming, and with any number of replicas. That of representatives
    may be fixed for a projection: a pure function of (seed, projection, class).

    Args:
        image_list: The training images that the sampler's indices refer to.
        sampler: Draws the indices of every step; with several workers, each has an equal one.
        preprocessing: None means `preprocessing_for(image_list)`.
        prefetch: Number of batches prepared ahead.
        strategy: The strategy that the model is trained with; None or a single replica gives whole batches.
        fix_representative_augmentation: Whether a representative is cropped and flipped in the same way
            throughout its projection; of no effect if the batches of a projection do not share them.

    Returns:
        Elements ``(images, labels, is_representative)``: uint8 [B, crop, crop, 3], int64 [B], float32 [B].
        With several replicas a `tf.distribute.DistributedDataset`: each replica gets b of the B, in order.

    Raises:
        ValueError: If the sampler was made for another number of images, or R does not divide B.
    """
    if len(image_list) != sampler.table.num_images:
        raise ValueError(
            f"`sampler` must be made from this image list's labels: it knows {sampler.table.num_images} "
            f"images, the list has {len(image_list)}."
        )
    preprocessing = preprocessing or image_ops.preprocessing_for(image_list)
    draws = _projection_draws if fix_representative_augmentation else _step_draws
    load = functools.partial(_training_rows, image_list, sampler, preprocessing, draws)
    if strategy is None or strategy.num_replicas_in_sync == 1:
        return _of_sampler(load(np.arange(sampler.batch_size), sampler.batch_size, prefetch), sampler)
    size = per_replica_batch_size(strategy, sampler.batch_size)

    def load_part(context: tf.distribute.InputContext) -> tf.data.Dataset:
        positions = _rows_of(context, sampler.batch_size)
        return load(positions, size, prefetch * (len(positions) // size))

    return _of_sampler(strategy.distribute_datasets_from_function(load_part), sampler)


def _of_sampler(dataset: Any, sampler: BatchSampler) -> Any:
    """Returns the data set with its sampler as an attribute, which `fit` compares with the callback's."""
    dataset.sampler = sampler
    return dataset


def _training_rows(
    image_list: ImageList,
    sampler: BatchSampler,
    preprocessing: Preprocessing,
    draws: Callable[[BatchSampler, BatchIndices], tuple[np.ndarray, np.ndarray]],
    positions: np.ndarray,
    size: int,
    prefetch: int,
) -> tf.data.Dataset:
    """Returns the images at the given positions of every batch, `size` at a time."""
    run_seed = tf.constant([sampler.seed % 2**31, (sampler.seed >> 31) ^ _AUGMENTATION], tf.int32)

    def prepare(
        image: tf.Tensor, time: tf.Tensor, place: tf.Tensor, label: tf.Tensor, is_representative: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        seed = tf.random.experimental.stateless_fold_in(run_seed, time)
        seed = tf.random.experimental.stateless_fold_in(seed, place)
        return image_ops.prepare_for_training(image, preprocessing, seed), label, is_representative

    dataset = tf.data.Dataset.from_generator(
        lambda: _rows(sampler, draws, positions), output_signature=_row_signature(len(positions))
    )
    dataset = _map_images(dataset.unbatch(), image_list, prepare)
    dataset = dataset.batch(size, drop_remainder=True).prefetch(prefetch)
    # Otherwise Keras would run an infinite first epoch instead of asking for `steps_per_epoch`.
    return dataset.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))


def _rows_of(context: tf.distribute.InputContext, batch_size: int) -> np.ndarray:
    """Returns the positions in a batch of the replicas that an input pipeline feeds."""
    return np.split(np.arange(batch_size), context.num_input_pipelines)[context.input_pipeline_id]


def evaluation_pipeline(
    image_list: ImageList,
    preprocessing: Optional[Preprocessing] = None,
    batch_size: int = 128,
    strategy: Optional[tf.distribute.Strategy] = None,
) -> Union[tf.data.Dataset, tf.distribute.DistributedDataset]:
    """Returns all images in order, as uint8 [<=batch_size, crop, crop, 3] batches.

    With R > 1 replicas each gets ``ceil(batch_size / R)`` images per batch; concatenated in the order of the
    replicas, they are in the order of the list. The last batch is padded with the last image.
    """
    preprocessing = preprocessing or image_ops.preprocessing_for(image_list)

    def load(indices: np.ndarray, size: int) -> tf.data.Dataset:
        dataset = _map_images(
            tf.data.Dataset.from_tensor_slices(indices),
            image_list,
            lambda image: image_ops.prepare_for_evaluation(image, preprocessing),
        )
        return dataset.batch(size).prefetch(2)

    if strategy is None or strategy.num_replicas_in_sync == 1:
        return load(np.arange(len(image_list)), batch_size)
    size = -(-batch_size // strategy.num_replicas_in_sync)
    whole = size * strategy.num_replicas_in_sync
    padded = np.minimum(np.arange(-(-len(image_list) // whole) * whole), len(image_list) - 1)

    def load_part(context: tf.distribute.InputContext) -> tf.data.Dataset:
        return load(padded.reshape(-1, whole)[:, _rows_of(context, whole)].ravel(), size)

    return strategy.distribute_datasets_from_function(load_part)


def _rows(
    sampler: BatchSampler,
    draws: Callable[[BatchSampler, BatchIndices], tuple[np.ndarray, np.ndarray]],
    positions: np.ndarray,
) -> Iterator[tuple[np.ndarray, ...]]:
    for batch in sampler:
        of_batch = batch.indices, *draws(sampler, batch), batch.labels, batch.is_representative
        yield tuple(values[positions] for values in of_batch)


def _step_draws(sampler: BatchSampler, batch: BatchIndices) -> tuple[np.ndarray, np.ndarray]:
    """Returns what the augmentation of each image is drawn from: step and position, int64 [B] each."""
    return np.full(sampler.batch_size, batch.step, np.int64), np.arange(sampler.batch_size)


def _projection_draws(sampler: BatchSampler, batch: BatchIndices) -> tuple[np.ndarray, np.ndarray]:
    """As `_step_draws`, but of a shared representative -1 - k, which is no step, and its class."""
    times, places = _step_draws(sampler, batch)
    if sampler.shares_representatives:
        times[: sampler.classes_per_batch] = -1 - batch.projection_index
        places[: sampler.classes_per_batch] = batch.labels[: sampler.classes_per_batch]
    return times, places


def _row_signature(size: int) -> tuple[tf.TensorSpec, ...]:
    integers = tf.TensorSpec([size], tf.int64)
    return integers, integers, integers, integers, tf.TensorSpec([size], tf.float32)


def _map_images(
    dataset: tf.data.Dataset, image_list: ImageList, prepare: Callable[..., Any]
) -> tf.data.Dataset:
    """Maps rows (index, *rest) to ``prepare(image, *rest)``, in parallel, in order.

    The image, uint8 [H, W, 3], is cropped to its bounding box if the list has boxes.
    """
    crop = _box_cropper(image_list)
    if isinstance(image_list.images, np.ndarray):
        load = _memory_loader(image_list.images)
        return _map_in_order(dataset, lambda index, *rest: prepare(crop(load(index), index), *rest))
    paths = tf.constant(list(image_list.images))
    # Each dataset has one element, so interleaving keeps the order, whatever the number of cores. It is built
    # anew for each image, so it only decodes.
    decoded = dataset.interleave(
        _as_it_is(lambda index, *rest: image_dataset(paths[index]).map(lambda image: (image, index, *rest))),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )
    return _map_in_order(decoded, lambda image, index, *rest: prepare(crop(image, index), *rest))


def _map_in_order(dataset: tf.data.Dataset, function: Callable[..., Any]) -> tf.data.Dataset:
    return dataset.map(_as_it_is(function), num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


def _box_cropper(image_list: ImageList) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    if image_list.boxes is None:
        return lambda image, index: image
    boxes = tf.constant(image_list.boxes)
    return lambda image, index: image_ops.crop_to_box(image, boxes[index])


def _memory_loader(pixels: np.ndarray) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns the function from an image's index, int64 scalar, to the image."""
    if pixels.nbytes <= _LARGEST_COPY:
        copied = tf.constant(pixels)
        return lambda index: copied[index]

    def load(index: tf.Tensor) -> tf.Tensor:
        # Not stateful, so that images are fetched in parallel even if operations must be deterministic.
        image = tf.numpy_function(lambda i: pixels[i], [index], tf.uint8, stateful=False)
        return tf.ensure_shape(image, pixels.shape[1:])

    return load
