"""Communication between the replicas of a model: embeddings before the loss, gradients after it.

Each replica embeds its part of a batch and computes the loss of the *whole* batch, in which gradients flow to
its own embeddings only. The gradients of the replicas then add up to the gradient of a single device.

All replicas must run the same collective operations in the same order.

Shapes: R replicas, b images in a replica's part, B = R b images in the batch, D embedding dimension.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Optional

import tensorflow as tf

# Options of a variable that each replica keeps for itself and all assign the same value: assigning it costs
# no communication, and outside a step its value is the first replica's.
PER_REPLICA = {
    "synchronization": tf.VariableSynchronization.ON_READ,
    "aggregation": tf.VariableAggregation.ONLY_FIRST_REPLICA,
}


def num_replicas() -> int:
    """Returns R of the current strategy, 1 without one."""
    return tf.distribute.get_strategy().num_replicas_in_sync


def is_multi_worker(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether the replicas run in several processes."""
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


def per_replica_batch_size(strategy: tf.distribute.Strategy, batch_size: int) -> int:
    """Returns b, the images in a replica's part of a batch.

    Raises:
        ValueError: If the batch is not divisible by the number of replicas.
    """
    number = strategy.num_replicas_in_sync
    if batch_size % number:
        raise ValueError(
            f"`batch_size` must be a multiple of the {number} replicas, got batches of {batch_size}. "
            "Choose another batch size, or another number of replicas."
        )
    return batch_size // number


def check_made_in_scope(
    strategy: tf.distribute.Strategy, name: str, variables: Sequence[tf.Variable]
) -> None:
    """Raises ValueError if a variable was created outside the strategy's scope.

    Tables, such as those of StringLookup and TextVectorization, are listed among the weights of a layer but
    are no variables. They have no replicas: one device may read them, several may not.
    """
    tables = [entry for entry in variables if not isinstance(entry, tf.Variable)]
    if tables and strategy.num_replicas_in_sync > 1:
        raise ValueError(
            f"`{name}` must hold no lookup table with several replicas, got {type(tables[0]).__name__}. Look "
            "up strings in the data pipeline, as with `dataset.map`, or train on one device."
        )
    if all(
        strategy.extended.variable_created_in_scope(variable)
        for variable in variables
        if isinstance(variable, tf.Variable)
    ):
        return
    raise ValueError(
        f"`{name}` must be made in the scope of the model's strategy, {type(strategy).__name__}, got one of "
        "another. Make embedder, loss, optimizer and model within one `with strategy.scope():`."
    )


def check_input(strategy: tf.distribute.Strategy, dataset: Any) -> None:
    """Raises ValueError if Keras would give the replicas wrong parts of a data set's batches.

    Keras splits the batches of a plain data set between the replicas of one process, if their number divides
    the batch; several workers would each draw batches of their own.
    """
    if strategy.num_replicas_in_sync == 1 or not isinstance(dataset, tf.data.Dataset):
        return
    if is_multi_worker(strategy):
        raise ValueError(
            "`x` must be made for the workers, got a plain data set. "
            "Pass `strategy=` to `train_pipeline`, or use `strategy.distribute_datasets_from_function`."
        )
    shape = tf.nest.flatten(dataset.element_spec)[0].shape
    if shape.rank and shape[0] is not None:
        per_replica_batch_size(strategy, shape[0])


def gather_batch(
    tape: Optional[tf.GradientTape],
    embeddings: tf.Tensor,
    labels: tf.Tensor,
    query_mask: Optional[tf.Tensor],
) -> tuple[tf.Tensor, tf.Tensor, Optional[tf.Tensor]]:
    """Returns the embeddings, labels and query mask of the whole batch, in the order of the replicas.

    With one replica they are returned as they are.

    Args:
        tape: The tape that records the embeddings, None without one. Gradients flow to the replica's own
            embeddings only.
        embeddings: [b, D] of this replica.
        labels: [b] or [b, 1].
        query_mask: [b], [b, 1] or None.

    Returns:
        [B, D], [B] or [B, 1], and the mask in its shape or None.
    """
    if num_replicas() == 1:
        return embeddings, labels, query_mask
    context = tf.distribute.get_replica_context()
    own = [embeddings, labels] if query_mask is None else [embeddings, labels, query_mask]
    with contextlib.nullcontext() if tape is None else tape.stop_recording():
        # Gathering needs tensors with a device, which those of the input pipeline lack.
        every = context.all_gather([tf.identity(values) for values in own], axis=0)
    size = tf.shape(embeddings)[0]
    begin = tf.cast(context.replica_id_in_sync_group, tf.int32) * size
    same_size = tf.debugging.assert_equal(
        tf.shape(every[0])[0],
        size * num_replicas(),
        "Replicas must have parts of one size. Use a batch size that their number divides.",
    )
    with tf.control_dependencies([] if same_size is None else [same_size]):
        parts = [every[0][:begin], embeddings, every[0][begin + size :]]
    whole = tf.ensure_shape(tf.concat(parts, axis=0), every[0].shape)
    return whole, every[1], None if query_mask is None else every[2]


def sum_gradients(
    gradients: list[Optional[tf.Tensor]], shared_gradients: list[Optional[tf.Tensor]]
) -> tuple[list[Optional[tf.Tensor]], list[Optional[tf.Tensor]]]:
    """Returns the sums over the replicas of both lists; costs one all-reduce for each dtype.

    Args:
        gradients: Gradients through the replica's part of the batch. None stays None.
        shared_gradients: Gradients that every replica computes for the whole batch, as those of the loss's
            own variables; counted once.
    """
    if num_replicas() == 1:
        return gradients, shared_gradients
    # Dense: the gradient of a boundary per class comes as slices, which cannot be divided.
    shares = [None if g is None else tf.convert_to_tensor(g) / num_replicas() for g in shared_gradients]
    every = gradients + shares
    context = tf.distribute.get_replica_context()
    # One all-reduce takes one dtype; a loss's variables may have another than the embedder's.
    for dtype in dict.fromkeys(gradient.dtype for gradient in every if gradient is not None):
        chosen = [number for number, g in enumerate(every) if g is not None and g.dtype == dtype]
        sums = context.all_reduce(tf.distribute.ReduceOp.SUM, [every[number] for number in chosen])
        for number, total in zip(chosen, sums):
            every[number] = total
    return every[: len(gradients)], every[len(gradients) :]


def replica_mean(value: tf.Tensor) -> tf.Tensor:
    """Returns the mean of a value over the replicas."""
    if num_replicas() == 1:
        return value
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, value)


def apply_gradients(
    optimizer: tf.keras.optimizers.Optimizer,
    gradients: list[Optional[tf.Tensor]],
    variables: Sequence[tf.Variable],
) -> None:
    """Takes an optimizer step with gradients that are summed over the replicas already."""
    # Understood by Keras's optimizers, its legacy ones and those of TensorFlow Addons.
    options = {} if num_replicas() == 1 else {"experimental_aggregate_gradients": False}
    optimizer.apply_gradients(zip(gradients, variables), **options)


def average_statistics(embedder: tf.keras.Model) -> None:
    """Sets the moving means and variances of all replicas to their mean over the replicas.

    Otherwise each replica would evaluate, and resume from a checkpoint, with statistics of its own. Moving
    averages are linear, so this does not change their mean. Call it between steps, on all workers.
    """
    strategy = embedder.distribute_strategy
    if strategy.num_replicas_in_sync == 1:
        return
    with strategy.scope():
        for variable in embedder.non_trainable_variables:
            per_replica = variable.synchronization == tf.VariableSynchronization.ON_READ
            if per_replica and variable.aggregation == tf.VariableAggregation.MEAN:
                variable.assign(variable.read_value())


def gather(strategy: tf.distribute.Strategy, function: Callable[[Any], tf.Tensor], part: Any) -> tf.Tensor:
    """Applies a function to each replica's part; returns the results concatenated, on all workers."""

    def run(own: Any) -> tf.Tensor:
        return tf.distribute.get_replica_context().all_gather(function(own), axis=0)

    return strategy.experimental_local_results(strategy.run(run, args=(part,)))[0]


class StopRequest:
    """A request to stop that every worker learns of in the same step.

    Not a tf.Module, so that no checkpoint holds it. Create it in the strategy's scope.
    """

    def __init__(self) -> None:
        """Starts without a request."""
        self._own = tf.Variable(0.0, trainable=False, **PER_REPLICA)
        self._total = tf.Variable(0.0, trainable=False, **PER_REPLICA)

    def set(self) -> None:
        """Requests a stop after the next step."""
        self._own.assign(1.0)

    def exchange(self) -> None:
        """Sums the requests over the replicas; part of every training step."""
        context = tf.distribute.get_replica_context()
        self._total.assign(context.all_reduce(tf.distribute.ReduceOp.SUM, self._own.read_value()))

    @property
    def is_set(self) -> bool:
        """Whether any worker had requested a stop before the last step."""
        return bool(self._total.numpy() > 0)
