"""What the replicas of a model exchange: the whole batch before the loss, the sum of the gradients after it.

Every replica embeds its own part of a batch and computes the loss of the *whole* batch, in which its own
embeddings are live and the others' are constants. The gradients of the replicas, each through its own part,
then add up to the gradient that one device would compute.

A collective operation that one replica runs must be run by all, in one order.

Shapes: R replicas, b images in a replica's part, B = R b images in the batch, D embedding dimension.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Optional

import tensorflow as tf

# Of a variable that each replica keeps for itself, with one value for all: assigning it costs no exchange,
# outside of a step it reads as the first replica's.
ONE_FOR_EACH = {
    "synchronization": tf.VariableSynchronization.ON_READ,
    "aggregation": tf.VariableAggregation.ONLY_FIRST_REPLICA,
}


def count() -> int:
    """Returns R of the strategy that is in force, 1 without one."""
    return tf.distribute.get_strategy().num_replicas_in_sync


def is_multi_worker(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether the replicas are in several processes."""
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


def part_size(strategy: tf.distribute.Strategy, batch_size: int) -> int:
    """Returns b, the images in a replica's part of a batch.

    Raises:
        ValueError: if the replicas do not divide the batch.
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
    """Raises ValueError if a variable belongs to other replicas than the strategy's."""
    if all(strategy.extended.variable_created_in_scope(variable) for variable in variables):
        return
    raise ValueError(
        f"`{name}` must be made in the scope of the model's strategy, {type(strategy).__name__}, got one of "
        "another. Make embedder, loss, optimiser and model within one `with strategy.scope():`."
    )


def check_input(strategy: tf.distribute.Strategy, dataset: Any) -> None:
    """Raises ValueError if Keras would give the replicas wrong parts of a data set's batches.

    Of a plain data set Keras splits the batches between the replicas of one process, if they divide them;
    workers would each take batches of their own.
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
        part_size(strategy, shape[0])


def whole_batch(
    tape: Optional[tf.GradientTape],
    embeddings: tf.Tensor,
    labels: tf.Tensor,
    query_mask: Optional[tf.Tensor],
) -> tuple[tf.Tensor, tf.Tensor, Optional[tf.Tensor]]:
    """Returns the embeddings, labels and query mask of the whole batch, in the order of the replicas.

    With one replica they are returned as they are.

    Args:
        tape: that records; gradients flow to the replica's own embeddings only. None where no one does.
        embeddings: [b, D] of this replica.
        labels: [b] or [b, 1].
        query_mask: [b], [b, 1] or None.

    Returns:
        [B, D], [B] or [B, 1], and the mask in its shape or None.
    """
    if count() == 1:
        return embeddings, labels, query_mask
    context = tf.distribute.get_replica_context()
    own = [embeddings, labels] if query_mask is None else [embeddings, labels, query_mask]
    with contextlib.nullcontext() if tape is None else tape.stop_recording():
        # What comes from the input has no device yet, which gathering asks for.
        every = context.all_gather([tf.identity(values) for values in own], axis=0)
    size = tf.shape(embeddings)[0]
    begin = tf.cast(context.replica_id_in_sync_group, tf.int32) * size
    same_size = tf.debugging.assert_equal(
        tf.shape(every[0])[0],
        size * count(),
        "Replicas must have parts of one size. Use a batch size that their number divides.",
    )
    with tf.control_dependencies([] if same_size is None else [same_size]):
        parts = [every[0][:begin], embeddings, every[0][begin + size :]]
    whole = tf.ensure_shape(tf.concat(parts, axis=0), every[0].shape)
    return whole, every[1], None if query_mask is None else every[2]


def summed(
    gradients: list[Optional[tf.Tensor]], shared_gradients: list[Optional[tf.Tensor]]
) -> list[Optional[tf.Tensor]]:
    """Returns the sum over the replicas of each gradient; costs one exchange for each dtype.

    Args:
        gradients: of the replica's own part: of what only that part depends on. None stays None.
        shared_gradients: which every replica computes whole, as for what the loss owns; counted once.

    Returns:
        Both lists, one after the other.
    """
    if count() == 1:
        return gradients + shared_gradients
    # Dense: that of a boundary for each class comes as slices, which cannot be divided.
    shares = [None if g is None else tf.convert_to_tensor(g) / count() for g in shared_gradients]
    every = gradients + shares
    context = tf.distribute.get_replica_context()
    # What goes in one exchange must be of one type: a loss's variables may be of another than the embedder's.
    for dtype in dict.fromkeys(gradient.dtype for gradient in every if gradient is not None):
        chosen = [number for number, g in enumerate(every) if g is not None and g.dtype == dtype]
        sums = context.all_reduce(tf.distribute.ReduceOp.SUM, [every[number] for number in chosen])
        for number, total in zip(chosen, sums):
            every[number] = total
    return every


def mean(value: tf.Tensor) -> tf.Tensor:
    """Returns the mean over the replicas of a value that each has."""
    if count() == 1:
        return value
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, value)


def apply_summed(
    optimizer: tf.keras.optimizers.Optimizer,
    gradients: list[Optional[tf.Tensor]],
    variables: Sequence[tf.Variable],
) -> None:
    """Lets the optimiser take a step by gradients that are summed already, which it would do by itself."""
    # The name by which Keras's present optimisers, its legacy ones and those of TensorFlow Addons know it.
    options = {} if count() == 1 else {"experimental_aggregate_gradients": False}
    optimizer.apply_gradients(zip(gradients, variables), **options)


def average_statistics(embedder: tf.keras.Model) -> None:
    """Gives all replicas the mean of what each gathered for itself: moving means and variances.

    Without it each replica would evaluate, and go on after a checkpoint, with statistics of its own. Since
    moving averages are linear, their mean over the replicas is the same as without. To be called between
    steps, by all workers.
    """
    strategy = embedder.distribute_strategy
    if strategy.num_replicas_in_sync == 1:
        return
    with strategy.scope():
        for variable in embedder.non_trainable_variables:
            kept_by_each = variable.synchronization == tf.VariableSynchronization.ON_READ
            if kept_by_each and variable.aggregation == tf.VariableAggregation.MEAN:
                variable.assign(variable.read_value())


def gathered(strategy: tf.distribute.Strategy, function: Callable[[Any], tf.Tensor], part: Any) -> tf.Tensor:
    """Returns what a function gives for each replica's part, joined along the first axis, on all workers."""

    def run(own: Any) -> tf.Tensor:
        return tf.distribute.get_replica_context().all_gather(function(own), axis=0)

    return strategy.experimental_local_results(strategy.run(run, args=(part,)))[0]


class StopVote:
    """Lets all workers stop after the same step, when one of them is asked to.

    Not a tf.Module: no checkpoint holds it. Create it in the strategy's scope.
    """

    def __init__(self) -> None:
        """Begins with no one asking."""
        self._asked = tf.Variable(0.0, trainable=False, **ONE_FOR_EACH)
        self._votes = tf.Variable(0.0, trainable=False, **ONE_FOR_EACH)

    def ask(self) -> None:
        """Asks for a stop after the step that comes."""
        self._asked.assign(1.0)

    def count(self) -> None:
        """Counts the votes; part of every training step."""
        context = tf.distribute.get_replica_context()
        self._votes.assign(context.all_reduce(tf.distribute.ReduceOp.SUM, self._asked.read_value()))

    @property
    def is_carried(self) -> bool:
        """Whether any worker had asked before the last step."""
        return bool(self._votes.numpy() > 0)
