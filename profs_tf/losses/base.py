"""The base class of the losses: the contract with Keras, and with the training loop of PROFS.

Shapes: B images in the batch, D embedding dimensions.
"""

import abc
import inspect
from collections.abc import Mapping, MutableMapping
from typing import Any, NamedTuple, Optional, get_type_hints

import numpy as np
import tensorflow as tf

from profs_tf.losses.batch import Batch, Check, read_batch


class Option(NamedTuple):
    """One option of a loss, as its constructor declares it."""

    type: type
    """bool, int, float or str; of an ``Optional[int]``, int."""
    default: Any
    """None: there is no default value, see the loss's docstring."""


class MetricLoss(tf.keras.losses.Loss, tf.Module):
    """A loss over the pairs or tuples of one batch of embeddings.

    It is called as every Keras loss is, so it serves ``keras_model.compile(loss=...)`` as well as ProfsModel:

        loss = ContrastiveLoss()
        loss(labels, embeddings)                                  # every image is a query: the ordinary loss
        loss(labels, embeddings, sample_weight=is_representative) # only representatives are: PROFS

    *Labels.* Equal labels mean "same class"; there is no 0/1 label of a pair. *Embeddings* are used as
    handed over: to normalise them is the embedder's part (``normalized_embeddings`` says whether the loss
    was designed for it). *Value.* Already averaged over what the loss chose in the batch.

    *The loss's own variables* (boundary, centres, proxies) are in ``trainable_variables``, as of any
    tf.Module. ProfsModel trains them at ``variable_learning_rate``. A stock functional or subclassed Keras
    model takes them for its own once it is compiled with the loss: it trains them, at the one learning rate
    of its optimiser, and saves them in checkpoints, ``.weights.h5`` and ``.keras`` files. Two traps of Keras,
    both silent: ``tf.keras.Sequential`` trains none of them (compile ``tf.keras.Model(model.inputs,
    model.outputs)`` in its place), and a whole model loaded from its older formats, SavedModel and ``.h5``,
    is compiled with a new loss.

    *Several replicas.* Each sees the pairs within its own part of the batch; in a stock Keras model the
    step is that of the mean of their values.

    Attributes:
        normalized_embeddings: whether the loss expects embeddings of unit length.
        has_prototypes: whether pairs consist of an image and one of the loss's prototypes (centers, proxies)
            rather than of two images. Batches then have no representatives, and every step is a projection
            of its own, M = 1 (paper, section 5.3).
        baseline_queries: which images of a baseline batch are queries, as ``BatchSampler`` takes it: "all",
            or "representatives" if the loss is defined for one fresh query per class.
        learning_rate: learning rate of the loss's own variables; None if it has none.
    """

    normalized_embeddings: bool = True
    has_prototypes: bool = False
    baseline_queries: str = "all"
    learning_rate: Optional[float] = None

    def __init__(self, name: Optional[str] = None):
        # Keras scales the value of this reduction by 1 / number of replicas only, and adds their gradients
        # up: by 1 on one device, and on several the step of the replicas' mean. NONE and SUM would make the
        # step grow with the replicas. The value is a mean already, so nothing here divides by the batch.
        reduction = tf.keras.losses.Reduction.SUM_OVER_BATCH_SIZE
        tf.keras.losses.Loss.__init__(self, reduction=reduction, name=name)
        tf.Module.__init__(self, name=name)

    @property
    def name(self) -> str:
        """The name of the loss, by default its class's in snake case."""
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        # Both parents hold a name; tf.Module's is read-only and Keras assigns to it.
        self._name = name

    @property
    def variable_learning_rate(self) -> Optional[float]:
        """The learning rate of the loss's own variables; None where it has none."""
        return self.learning_rate

    def class_vectors(self) -> Optional[tf.Tensor]:
        """Returns one vector for each class, float32 [C, D], of unit length, made of the loss's variables.

        Class mining searches them in place of the representatives' embeddings (paper, section 5.3). None
        where the loss holds no vectors of classes.
        """
        return None

    # Keras converts its train step with AutoGraph; all branches on values here are TensorFlow's own already.
    @tf.autograph.experimental.do_not_convert
    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> tf.Tensor:
        """Returns the loss of one batch.

        Args:
            y_true: [B] or [B, 1] class labels, any integer or float dtype. Floats hold labels apart only
                below 2^24 (see ``inputs.read_labels``): prefer integers.
            y_pred: [B, D] embeddings, any floating dtype. The value is computed in float32, in float64 where
                they are float64.
            sample_weight: [B] or [B, 1], any dtype: non-zero where the image may be a query, the first
                element of a pair. None: all may. It is a mask; its values do not weigh anything.

        Returns:
            Scalar, float32 (float64 for float64 embeddings). NaN where an embedding is infinite or NaN,
            whatever was chosen of the batch.

        Raises:
            ValueError: shapes or dtypes that are known to be wrong, such as one-hot labels.
            tf.errors.InvalidArgumentError: the same where only the values show it. XLA drops assertions:
                there the value is NaN instead.
        """
        with tf.name_scope(self.name):
            batch, checks = read_batch(y_true, y_pred, sample_weight)
            checks += self._label_checks(batch.labels)
            holds = tf.stack([check.holds for check in checks])
            # A comparison with NaN is false: pairs would drop out of the value, and leave it finite.
            is_finite = tf.reduce_all(tf.math.is_finite(batch.embeddings))
            with tf.control_dependencies(_assert_all(checks)):
                batch = batch._replace(embeddings=tf.identity(batch.embeddings))
                value = self._batch_loss(batch)
            return tf.where(tf.reduce_all(holds) & is_finite, value, tf.constant(float("nan"), value.dtype))

    def call(self, y_true: Any, y_pred: Any) -> tf.Tensor:
        """Returns the loss with every image as a query; what Keras asks of a Loss besides ``__call__``."""
        return self(y_true, y_pred)

    @abc.abstractmethod
    def _batch_loss(self, batch: Batch) -> tf.Tensor:
        """Returns the loss of ``batch``, a scalar of the dtype of its embeddings."""

    def _label_checks(self, labels: tf.Tensor) -> tuple[Check, ...]:
        """Returns what a loss demands of the labels [B] beyond their shape."""
        return ()

    @classmethod
    def options(cls) -> dict[str, Option]:
        """Returns the options of the constructor by name, in its order, ``name`` left out."""
        hints = get_type_hints(cls.__init__)
        parameters = inspect.signature(cls.__init__).parameters
        return {
            name: Option(_value_type(hints[name]), parameter.default)
            for name, parameter in parameters.items()
            if name not in ("self", "name")
        }

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments; ``from_config`` makes an equal loss of them.

        The values of the loss's own variables are not part of it: they belong into a checkpoint.
        """
        return {"name": self.name, **{option: getattr(self, option) for option in self.options()}}

    def save_own_variables(self, store: MutableMapping[str, np.ndarray]) -> None:
        """Writes the loss's variables into ``store``, for Keras's own file formats."""
        for variable in self.variables:
            store[_store_key(variable)] = variable.numpy()

    def load_own_variables(self, store: Mapping[str, np.ndarray]) -> None:
        """Reads the loss's variables from ``store``; raises ValueError where one is missing."""
        for variable in self.variables:
            key = _store_key(variable)
            if key not in store:
                raise ValueError(
                    f"The file holds no `{key}` of the loss {self.name}: saved without this loss."
                )
            variable.assign(store[key])


def _value_type(hint: Any) -> type:
    """Returns the type of an option's value: X of Optional[X], X of X."""
    members = [member for member in getattr(hint, "__args__", ()) if member is not type(None)]
    return members[0] if members else hint


def _store_key(variable: tf.Variable) -> str:
    return variable.name.split("/")[-1].split(":")[0]


def _assert_all(checks: tuple[Check, ...]) -> list[tf.Operation]:
    """Raises at once where values are known; otherwise returns the operations that will."""
    if not tf.executing_eagerly():
        return [tf.debugging.Assert(check.holds, [check.message]) for check in checks]
    for check in checks:
        if not check.holds:
            raise tf.errors.InvalidArgumentError(None, None, check.message)
    return []
