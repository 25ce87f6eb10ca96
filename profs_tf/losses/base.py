"""The base class of the losses: their contract with Keras and with the training loop of PROFS.

Shapes: B images in the batch, L classes, D embedding dimensions.
"""

import abc
import inspect
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Literal, NamedTuple, Optional, get_args, get_origin, get_type_hints

import numpy as np
import tensorflow as tf

from profs_tf.losses.batch import Check, EmbeddingBatch, read_batch


class Option(NamedTuple):
    """One option of a loss, as its constructor declares it."""

    type: type
    """bool, int, float or str; int for an ``Optional[int]``."""
    default: Any
    """None if there is no default value; see the loss's docstring."""
    choices: tuple[str, ...] = ()
    """The valid values, if the constructor declares them by ``Literal``."""


class MetricLoss(tf.keras.losses.Loss, tf.Module):
    """A loss over the pairs or tuples of one batch of embeddings.

    It is called like any Keras loss, and works with ``keras_model.compile(loss=...)`` and with ProfsModel:

        loss = ContrastiveLoss()
        loss(labels, embeddings)                                  # every image is a query: the ordinary loss
        loss(labels, embeddings, sample_weight=is_representative) # only representatives are: PROFS

    *Labels.* Equal labels mean "same class"; pairs have no 0/1 label. *Embeddings* are used as passed: the
    embedder normalizes them (``normalized_embeddings`` tells whether the loss was designed for unit length).
    *Value.* Already averaged over the terms that the loss chose in the batch.

    *The loss's own variables* (boundary, centers, proxies) are in ``trainable_variables``, as in any
    tf.Module. ProfsModel trains them at ``variable_learning_rate``. A stock functional or subclassed Keras
    model that is compiled with the loss tracks them as its own: it trains them at its optimizer's learning
    rate, and saves them in checkpoints, ``.weights.h5`` and ``.keras`` files. Two silent pitfalls of Keras:
    ``tf.keras.Sequential`` does not train them (compile ``tf.keras.Model(model.inputs, model.outputs)``
    instead), and a model loaded from SavedModel or ``.h5`` is compiled with a new loss.

    *Several replicas.* Each replica uses the pairs within its own part of the batch; a stock Keras model
    follows the gradient of the mean of their values.

    Attributes:
        normalized_embeddings: Whether the loss expects embeddings of unit length.
        has_prototypes: Whether pairs consist of an image and one of the loss's prototypes (centers, proxies)
            rather than of two images. Batches then have no representatives, and every step is a projection
            of its own, M = 1 (paper, section 5.3).
        baseline_queries: Which images of a baseline batch are queries, as ``BatchSampler`` takes it: "all",
            or "representatives" if the loss is defined for one fresh query per class.
        takes_candidates: Whether queries may also be paired with images outside the batch, the
            ``EmbeddingBatch.candidates``, as ``CrossBatchMemory`` does.
        learning_rate: Learning rate of the loss's own variables; None if it has none.
        representative_pairs: Whether pairs of two representatives count; of effect in pairwise losses that
            have it as an option.
    """

    normalized_embeddings: bool = True
    has_prototypes: bool = False
    baseline_queries: str = "all"
    takes_candidates: bool = False
    learning_rate: Optional[float] = None

    def __init__(self, name: Optional[str] = None, representative_pairs: bool = True):
        # With this reduction Keras scales the value by 1 / number of replicas and sums the gradients, which
        # gives the gradient of the replicas' mean. With NONE and SUM the step would grow with the number of
        # replicas. The value is a mean already, so nothing divides by the batch size.
        reduction = tf.keras.losses.Reduction.SUM_OVER_BATCH_SIZE
        tf.keras.losses.Loss.__init__(self, reduction=reduction, name=name)
        tf.Module.__init__(self, name=name)
        self.representative_pairs = representative_pairs

    @property
    def name(self) -> str:
        """The name of the loss, by default that of its class in snake case."""
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        # Both base classes have a name; that of tf.Module is read-only, and Keras assigns to it.
        self._name = name

    @property
    def variable_learning_rate(self) -> Optional[float]:
        """The learning rate of the loss's own variables; None if it has none."""
        return self.learning_rate

    @property
    def variables_at_own_rate(self) -> list[tf.Variable]:
        """The variables that learn at `variable_learning_rate`; others learn as the network does."""
        return list(self.trainable_variables)

    def class_vectors(self) -> Optional[tf.Tensor]:
        """Returns one unit vector per class, float32 [L, D], computed from the prototypes; None without them.

        Class mining searches these in place of the representatives' embeddings (paper, section 5.3).
        """
        return None

    # Keras converts its train step with AutoGraph, which the losses do not need.
    @tf.autograph.experimental.do_not_convert
    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> tf.Tensor:
        """Returns the loss of one batch.

        Args:
            y_true: [B] or [B, 1] class labels, any integer or float dtype. Prefer integers: float32
                distinguishes labels only below 2^24.
            y_pred: [B, D] embeddings, any floating dtype. The value is computed in float32, or in float64 for
                float64 embeddings.
            sample_weight: [B] or [B, 1], any dtype; non-zero for images that may be a query, the first
                element of a pair. None: all may. It is a mask; its values are not used as weights.

        Returns:
            Scalar, float32 (float64 for float64 embeddings). NaN if any embedding is infinite or NaN, even
            if the loss does not use it.

        Raises:
            ValueError: If shapes or dtypes are known to be wrong, such as those of one-hot labels.
            tf.errors.InvalidArgumentError: If this shows only at run time. XLA drops assertions: there the
                value is NaN instead.
        """
        return self._value(y_true, y_pred, sample_weight, self._batch_loss)

    def training_step(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> tf.Tensor:
        """Returns the loss of one batch for a training step, the same as a call.

        A loss with a state that only training changes overrides it.
        """
        return self(y_true, y_pred, sample_weight)

    @tf.autograph.experimental.do_not_convert
    def _value(
        self, y_true: Any, y_pred: Any, sample_weight: Any, loss_of: Callable[[EmbeddingBatch], tf.Tensor]
    ) -> tf.Tensor:
        """Returns ``loss_of`` the checked batch, or NaN; see ``__call__``."""
        with tf.name_scope(self.name):
            batch, checks = read_batch(y_true, y_pred, sample_weight)
            checks += self._label_checks(batch.labels)
            holds = tf.stack([check.holds for check in checks])
            # Comparisons with NaN are false: such pairs would drop out and leave the value finite.
            is_finite = tf.reduce_all(tf.math.is_finite(batch.embeddings))
            with tf.control_dependencies(_assert_all(checks)):
                batch = batch._replace(
                    embeddings=tf.identity(batch.embeddings), representative_pairs=self.representative_pairs
                )
                value = loss_of(batch)
            return tf.where(tf.reduce_all(holds) & is_finite, value, tf.constant(float("nan"), value.dtype))

    def call(self, y_true: Any, y_pred: Any) -> tf.Tensor:
        """Returns the loss with every image as a query. Keras requires this method of every loss."""
        return self(y_true, y_pred)

    @abc.abstractmethod
    def _batch_loss(self, batch: EmbeddingBatch) -> tf.Tensor:
        """Returns the loss of ``batch``, a scalar of the dtype of its embeddings."""

    def _label_checks(self, labels: tf.Tensor) -> tuple[Check, ...]:
        """Returns the loss's own checks of the labels [B]."""
        return ()

    @classmethod
    def options(cls) -> dict[str, Option]:
        """Returns the constructor's options by name, in order, without ``name``."""
        hints = get_type_hints(cls.__init__)
        options = {}
        for name, parameter in inspect.signature(cls.__init__).parameters.items():
            if name not in ("self", "name"):
                hint = hints.get(name, type(parameter.default))
                options[name] = Option(_value_type(hint), parameter.default, _choices(hint))
        return options

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, from which ``from_config`` makes an equal loss.

        The values of the loss's own variables are not included: checkpoints store them.
        """
        return {"name": self.name, **{option: getattr(self, option) for option in self.options()}}

    def save_own_variables(self, store: MutableMapping[str, np.ndarray]) -> None:
        """Writes the loss's variables into ``store``, for Keras's own file formats."""
        for key, variable in self._variables_by_key().items():
            store[key] = variable.numpy()

    def load_own_variables(self, store: Mapping[str, np.ndarray]) -> None:
        """Reads the loss's variables from ``store``; raises ValueError if one is missing."""
        for key, variable in self._variables_by_key().items():
            if key not in store:
                raise ValueError(
                    f"The file holds no `{key}` of the loss {self.name}: saved without this loss."
                )
            variable.assign(store[key])

    def _variables_by_key(self) -> dict[str, tf.Variable]:
        """Returns the variables by their names, of which equal ones get a number."""
        found: dict[str, tf.Variable] = {}
        for variable in self.variables:
            name = key = variable.name.split("/")[-1].split(":")[0]
            number = 0
            while key in found:
                number += 1
                key = f"{name}_{number}"
            found[key] = variable
        return found


def _value_type(hint: Any) -> type:
    """Returns the type of an option's value: X for X and for Optional[X], str for a Literal of str."""
    if get_origin(hint) is Literal:
        return type(get_args(hint)[0])
    members = [member for member in getattr(hint, "__args__", ()) if member is not type(None)]
    return members[0] if members else hint


def _choices(hint: Any) -> tuple[str, ...]:
    return get_args(hint) if get_origin(hint) is Literal else ()


def _assert_all(checks: tuple[Check, ...]) -> list[tf.Operation]:
    """Raises InvalidArgumentError in eager mode; in a graph returns the operations that will."""
    if not tf.executing_eagerly():
        return [tf.debugging.Assert(check.holds, [check.message]) for check in checks]
    for check in checks:
        if not check.holds:
            raise tf.errors.InvalidArgumentError(None, None, check.message)
    return []
