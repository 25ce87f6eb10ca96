"""One training step of PROFS: embed, loss, gradients, proximal gradient, optimiser (paper, Algorithm 1).

Shapes: B images a batch, D embedding dimension.
"""

from collections.abc import Callable
from typing import Any, Optional, Union

import tensorflow as tf

from profs_tf.distribution import collectives
from profs_tf.losses import MetricLoss
from profs_tf.models.non_finite import TERMS
from profs_tf.models.proximal import ProximalTerm, ProximalWeight, check_proximal_weight

# What Keras would compute besides the loss, in steps of its own that this model does not take.
_NOT_COMPUTED = ("metrics", "weighted_metrics", "loss_weights")


class RepresentativeTap:
    """Where a training step leaves what it computed for its representatives, for class mining to read.

    Not a tf.Module: Keras then does not take its variables for the model's, and no checkpoint holds them.

    Attributes:
        classes: int64 [C] variable.
        embeddings: float32 [C, D] variable.
    """

    def __init__(self, classes_per_batch: int, embedding_dim: int) -> None:
        """Makes room for one step."""
        zeros = tf.zeros([classes_per_batch, embedding_dim])
        self.classes = tf.Variable(
            tf.cast(zeros[:, 0], tf.int64), trainable=False, **collectives.ONE_FOR_EACH
        )
        self.embeddings = tf.Variable(zeros, trainable=False, **collectives.ONE_FOR_EACH)

    def record(self, labels: tf.Tensor, embeddings: tf.Tensor) -> None:
        """Keeps the first C labels and embeddings of a batch, which are the representatives'."""
        count = self.classes.shape[0]
        self.classes.assign(tf.cast(tf.reshape(labels, [-1])[:count], tf.int64))
        self.embeddings.assign(tf.cast(embeddings[:count], tf.float32))


class ProfsModel(tf.keras.Model):
    """Trains an embedder with a metric-learning loss and the pull towards the anchor weights.

    The model trains on Keras's triple ``(images, labels, is_representative)``; the loss reads the third as
    *who may be a query*. Its outputs are the embedder's. Only the embedder is meant to be exported:
    ``model.embedder.save(path)``. `tf.train.Checkpoint`, and `save_weights` in the format of TensorFlow's
    checkpoints, hold all that training goes on from: also anchors, the loss's variables and the step. A
    ``.weights.h5`` file lacks the anchors: what resumes from one keeps those that `compile` made until the
    next projection.

    Attributes:
        embedder: the Keras model that is trained, [B, H, W, 3] to [B, D] (or any input the data gives).
        proximal: the `ProximalTerm`, created by `compile`.
        step: int64 scalar variable, optimiser steps taken; the clock of sampler and callback on resuming.
        steps_taken: its value.
        representative_tap: `RepresentativeTap` that training steps fill, or None where no one mines classes.
        stop_vote: `StopVote` of several workers, created by `compile`; None elsewhere.
        non_finite_steps: int64 [3] variable, the first step at which each of `TERMS` was not finite, or -1.
    """

    def __init__(
        self, embedder: tf.keras.Model, proximal_weight: ProximalWeight = 1e-3, **kwargs: Any
    ) -> None:
        """Wraps an embedder.

        Args:
            embedder: any built Keras model that gives [B, D] embeddings.
            proximal_weight: lambda; 0 leaves the term out. A number, or a Keras learning-rate schedule.
            **kwargs: for `tf.keras.Model`, such as `name`.

        Raises:
            ValueError: if the embedder has no variables yet, or `proximal_weight` is out of range.
        """
        super().__init__(**kwargs)
        if not embedder.built:
            raise ValueError(
                "`embedder` must be built, got one without variables. Call it once on a batch of images, "
                "or build it with an input shape."
            )
        self.embedder = embedder
        self._proximal_weight = check_proximal_weight(proximal_weight)
        integer = {"trainable": False, "dtype": tf.int64, **collectives.ONE_FOR_EACH}
        self.step = tf.Variable(0, name="step", **integer)
        self.non_finite_steps = tf.Variable([-1] * len(TERMS), name="non_finite_steps", **integer)
        # Every replica reports the loss of the whole batch; Keras would add them up.
        self.distribute_reduction_method = "first"
        self.representative_tap: Optional[RepresentativeTap] = None
        self.stop_vote: Optional[collectives.StopVote] = None
        self._at_fit_end: list[Callable[[], None]] = []
        self.loss_tracker = tf.keras.metrics.Mean(name="loss")
        self.penalty_tracker = tf.keras.metrics.Mean(name="proximal_penalty")

    def call(self, images: tf.Tensor, training: Optional[bool] = None) -> tf.Tensor:
        """Returns the embeddings, [B, D]."""
        return self.embedder(images, training=training)

    def compile(
        self, optimizer: Union[str, tf.keras.optimizers.Optimizer], loss: MetricLoss, **kwargs: Any
    ) -> None:
        """As `tf.keras.Model.compile`; creates the anchors of the variables that are trainable now.

        A loss with variables of its own (boundary, centres, proxies) has them trained and saved with the
        model. Where the optimiser is a `HeadAdam` they learn at the loss's own `variable_learning_rate`,
        unless they were given a multiplier before.

        Args:
            optimizer: as for Keras.
            loss: a `MetricLoss`, one of ``profs_tf.losses`` or of your own.
            **kwargs: as for Keras, without `metrics`, `weighted_metrics` and `loss_weights`.

        Raises:
            ValueError: if the loss is no `MetricLoss`; if metrics or weights of losses are given; if
                embedder, loss or optimiser were made outside the strategy's scope of this model.
        """
        _check_loss(loss)
        _check_not_given(kwargs)
        super().compile(optimizer=optimizer, loss=loss, **kwargs)
        self.metric_loss = loss
        strategy = self.distribute_strategy
        collectives.check_made_in_scope(strategy, "embedder", self.embedder.variables)
        collectives.check_made_in_scope(strategy, "loss", self._loss_variables())
        with strategy.scope():
            self.proximal = ProximalTerm(self.embedder.trainable_variables, self._proximal_weight)
            self.stop_vote = collectives.StopVote() if collectives.is_multi_worker(strategy) else None
        inner: Any = getattr(self.optimizer, "inner_optimizer", self.optimizer)
        if self._loss_variables() and hasattr(inner, "set_default_rate"):
            inner.set_default_rate(self._loss_variables(), self.metric_loss.variable_learning_rate)
        if hasattr(self.optimizer, "build"):
            # Here, not at the first step: a checkpoint can then be checked for holding every moment.
            with self.distribute_strategy.scope():
                self.optimizer.build(self.embedder.trainable_variables + self._loss_variables())

    def fit(self, x: Any = None, *arguments: Any, **options: Any) -> tf.keras.callbacks.History:
        """As `tf.keras.Model.fit`; calls what `at_fit_end` was given also where training ends in an error.

        Raises:
            ValueError: if the data is not made for the replicas of this model.
        """
        collectives.check_input(self.distribute_strategy, x)
        try:
            return super().fit(x, *arguments, **options)
        finally:
            while self._at_fit_end:
                self._at_fit_end.pop()()

    def evaluate(
        self, x: Any = None, *arguments: Any, **options: Any
    ) -> Union[float, list[float], dict[str, float]]:
        """As `tf.keras.Model.evaluate`; returns the mean over the batches of what `test_step` computes.

        A loss depends on the company in its batch: compare values of equal batches only.

        Raises:
            ValueError: if the data is not made for the replicas of this model.
        """
        collectives.check_input(self.distribute_strategy, x)
        return super().evaluate(x, *arguments, **options)

    def at_fit_end(self, call: Callable[[], None]) -> None:
        """Has a function called once, when the `fit` that is going on ends, in whatever way."""
        self._at_fit_end.append(call)

    @property
    def steps_taken(self) -> int:
        """The value of `step`, also where there are several replicas."""
        return int(self.step.numpy())

    @property
    def metrics(self) -> list[tf.keras.metrics.Metric]:
        """The means that Keras resets at the start of an epoch."""
        return [self.loss_tracker, self.penalty_tracker]

    def train_step(self, data: tuple[tf.Tensor, ...]) -> dict[str, tf.Tensor]:
        """One step of Algorithm 1; returns the running means `loss` and `proximal_penalty`."""
        self._check_anchors_move()
        embedder_variables = self.embedder.trainable_variables
        loss_variables = self._loss_variables()
        with tf.GradientTape() as tape:
            labels, embeddings, loss, own_loss = self._loss_of(data, training=True, tape=tape)
            scaled_loss = self.optimizer.get_scaled_loss(own_loss) if self._scales_loss else own_loss
        gradients = tape.gradient(scaled_loss, embedder_variables + loss_variables)
        if self._scales_loss:
            gradients = self.optimizer.get_unscaled_gradients(gradients)
        size = len(embedder_variables)
        gradients = collectives.summed(gradients[:size], gradients[size:])
        penalty = tf.zeros([])
        if self.proximal.is_active:
            penalty, pull = self.proximal.penalty_and_gradients(self.step)
            # The loss's own variables come last and are not pulled: zip leaves them as they are.
            pulled = [p if g is None else g + tf.cast(p, g.dtype) for g, p in zip(gradients, pull)]
            gradients = pulled + gradients[len(pulled) :]
            if self.proximal.lagged:
                self.proximal.follow(self.step)
        collectives.apply_summed(self.optimizer, gradients, embedder_variables + loss_variables)
        if self.stop_vote is not None:
            self.stop_vote.count()
        if self.representative_tap is not None:
            self.representative_tap.record(labels, embeddings)
        self._record(embeddings, loss, penalty)
        return {metric.name: metric.result() for metric in self.metrics}

    def test_step(self, data: tuple[tf.Tensor, ...]) -> dict[str, tf.Tensor]:
        """Returns the running mean `loss` of batches as in training, without the proximal penalty.

        Args:
            data: images and labels, and, where not every image may be a query, who may; as for training. The
                embedder runs in inference mode; its regularisation is part of the loss as it is in training.
        """
        _, _, loss, _ = self._loss_of(data, training=False)
        self.loss_tracker.update_state(loss)
        return {self.loss_tracker.name: self.loss_tracker.result()}

    def _loss_of(
        self, data: tuple[tf.Tensor, ...], training: bool, tape: Optional[tf.GradientTape] = None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns the whole batch's labels, embeddings and loss, and what this replica differentiates."""
        images, labels, query_mask = tf.keras.utils.unpack_x_y_sample_weight(data)
        embeddings = self.embedder(images, training=training)
        embeddings, labels, query_mask = collectives.whole_batch(tape, embeddings, labels, query_mask)
        loss = own_loss = tf.cast(self.metric_loss(labels, embeddings, query_mask), tf.float32)
        if self.embedder.losses:
            terms = tf.add_n([tf.cast(term, tf.float32) for term in self.embedder.losses])
            # Of these each replica has its share in the sum of gradients.
            loss, own_loss = loss + collectives.mean(terms), own_loss + terms / collectives.count()
        return labels, embeddings, loss, own_loss

    @property
    def _scales_loss(self) -> bool:
        return isinstance(self.optimizer, tf.keras.mixed_precision.LossScaleOptimizer)

    def _loss_variables(self) -> list[tf.Variable]:
        return list(self.metric_loss.trainable_variables)

    def _check_anchors_move(self) -> None:
        if self.proximal.is_active and not self.proximal.in_use:
            raise ValueError(
                "`proximal_weight` > 0 needs the anchor weights moved, but no callback does so. "
                "Pass `callbacks=[ProfsCallback(sampler)]` to `fit`, or `proximal_weight=0.0` to the model."
            )

    def _record(self, embeddings: tf.Tensor, loss: tf.Tensor, penalty: tf.Tensor) -> None:
        self.loss_tracker.update_state(loss)
        self.penalty_tracker.update_state(penalty)
        finite = [tf.reduce_all(tf.math.is_finite(value)) for value in (embeddings, loss, penalty)]
        newly = ~tf.stack(finite) & (self.non_finite_steps < 0)
        self.non_finite_steps.assign(tf.where(newly, self.step, self.non_finite_steps))
        self.step.assign_add(1)


def _check_loss(loss: object) -> None:
    """Refuses what would not take the labels as classes and the third of the data as who may be a query."""
    if not isinstance(loss, MetricLoss):
        raise ValueError(
            f"`loss` must be a MetricLoss, got {loss!r}. Pass one of profs_tf.losses, such as "
            '`profs_tf.losses.get("contrastive")`, or a subclass of profs_tf.losses.MetricLoss.'
        )


def _check_not_given(options: dict[str, Any]) -> None:
    for argument in _NOT_COMPUTED:
        if options.get(argument) is not None:
            raise ValueError(
                f"`{argument}` must be left out, got {options[argument]!r}: only the loss is computed. "
                "For Recall@K and others pass `callbacks=[RecallCallback(image_list)]` to `fit`."
            )


def steps_taken_by(model: tf.keras.Model) -> int:
    """Returns the number of steps that a model has taken; a stock model's optimizer counts them."""
    own = getattr(model, "step", None)
    return int((model.optimizer.iterations if own is None else own).numpy())
