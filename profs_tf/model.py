"""One training step of PROFS: embed, loss, gradients, proximal gradient, optimiser (paper, Algorithm 1).

Shapes: B images a batch, D embedding dimension.
"""

from collections.abc import Callable
from typing import Optional

import tensorflow as tf

from profs_tf import replicas
from profs_tf.proximal import ProximalTerm, ProximalWeight, check_proximal_weight

# What is watched for values that are not finite, in the order in which a step computes it.
TERMS = ("embeddings", "loss", "proximal_penalty")


class RepresentativeTap:
    """Where a training step leaves what it computed for its representatives, for class mining to read.

    Not a tf.Module: Keras then does not take its variables for the model's, and no checkpoint holds them.

    Attributes:
        classes: int64 [C] variable.
        embeddings: float32 [C, D] variable.
    """

    def __init__(self, classes_per_batch: int, embedding_dim: int):
        """Makes room for one step."""
        zeros = tf.zeros([classes_per_batch, embedding_dim])
        self.classes = tf.Variable(tf.cast(zeros[:, 0], tf.int64), trainable=False, **replicas.ONE_FOR_EACH)
        self.embeddings = tf.Variable(zeros, trainable=False, **replicas.ONE_FOR_EACH)

    def record(self, labels: tf.Tensor, embeddings: tf.Tensor) -> None:
        """Keeps the first C labels and embeddings of a batch, which are the representatives'."""
        count = self.classes.shape[0]
        self.classes.assign(tf.cast(tf.reshape(labels, [-1])[:count], tf.int64))
        self.embeddings.assign(tf.cast(embeddings[:count], tf.float32))


class ProfsModel(tf.keras.Model):
    """Trains an embedder with a metric-learning loss and the pull towards the anchor weights.

    The model trains on Keras's triple ``(images, labels, is_representative)``; the loss reads the third as
    *who may be a query*. Its outputs are the embedder's. Only the embedder is meant to be exported:
    ``model.embedder.save(path)``; anchors, the loss's variables and the step are saved by
    `tf.train.Checkpoint` and by `save_weights`.

    Attributes:
        embedder: the Keras model that is trained, [B, H, W, 3] to [B, D] (or any input the data gives).
        proximal: the `ProximalTerm`, created by `compile`.
        step: int64 scalar variable, optimiser steps taken; the clock of sampler and callback on resuming.
        steps_taken: its value.
        representative_tap: `RepresentativeTap` that training steps fill, or None where no one mines classes.
        stop_vote: `StopVote` of several workers, created by `compile`; None elsewhere.
        non_finite_steps: int64 [3] variable, the first step at which each of `TERMS` was not finite, or -1.
    """

    def __init__(self, embedder: tf.keras.Model, proximal_weight: ProximalWeight = 1e-3, **kwargs):
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
        integer = {"trainable": False, "dtype": tf.int64, **replicas.ONE_FOR_EACH}
        self.step = tf.Variable(0, name="step", **integer)
        self.non_finite_steps = tf.Variable([-1] * len(TERMS), name="non_finite_steps", **integer)
        # Every replica reports the loss of the whole batch; Keras would add them up.
        self.distribute_reduction_method = "first"
        self.representative_tap = None
        self.stop_vote = None
        self._at_fit_end = []
        self.loss_tracker = tf.keras.metrics.Mean(name="loss")
        self.penalty_tracker = tf.keras.metrics.Mean(name="proximal_penalty")

    def call(self, images, training: Optional[bool] = None):
        """Returns the embeddings, [B, D]."""
        return self.embedder(images, training=training)

    def compile(self, optimizer, loss, **kwargs):
        """As `tf.keras.Model.compile`; creates the anchors of the variables that are trainable now.

        A loss with variables of its own (boundary, centres, proxies) has them trained and saved with the
        model, at the loss's own `variable_learning_rate` where the optimiser is a `HeadAdam`.

        Raises:
            ValueError: if embedder, loss or optimiser were made outside the strategy's scope of this model.
        """
        super().compile(optimizer=optimizer, loss=loss, **kwargs)
        self.metric_loss = tf.keras.losses.get(loss)
        strategy = self.distribute_strategy
        replicas.check_made_in_scope(strategy, "embedder", self.embedder.variables)
        replicas.check_made_in_scope(strategy, "loss", self._loss_variables())
        with strategy.scope():
            self.proximal = ProximalTerm(self.embedder.trainable_variables, self._proximal_weight)
            self.stop_vote = replicas.StopVote() if replicas.is_multi_worker(strategy) else None
        optimizer = getattr(self.optimizer, "inner_optimizer", self.optimizer)
        if self._loss_variables() and hasattr(optimizer, "set_learning_rate"):
            optimizer.set_learning_rate(self._loss_variables(), self.metric_loss.variable_learning_rate)
        if hasattr(self.optimizer, "build"):
            # Here, not at the first step: a checkpoint can then be checked for holding every moment.
            with self.distribute_strategy.scope():
                self.optimizer.build(self.embedder.trainable_variables + self._loss_variables())

    def fit(self, x=None, *arguments, **options):
        """As `tf.keras.Model.fit`; calls what `at_fit_end` was given also where training ends in an error.

        Raises:
            ValueError: if the data is not made for the replicas of this model.
        """
        replicas.check_input(self.distribute_strategy, x)
        try:
            return super().fit(x, *arguments, **options)
        finally:
            while self._at_fit_end:
                self._at_fit_end.pop()()

    def at_fit_end(self, call: Callable[[], None]) -> None:
        """Has a function called once, when the `fit` that is going on ends, in whatever way."""
        self._at_fit_end.append(call)

    @property
    def steps_taken(self) -> int:
        """The value of `step`, also where there are several replicas."""
        return int(self.step.numpy())

    @property
    def metrics(self):
        """The means that Keras resets at the start of an epoch."""
        return [self.loss_tracker, self.penalty_tracker]

    def train_step(self, data) -> dict[str, tf.Tensor]:
        """One step of Algorithm 1; returns the running means `loss` and `proximal_penalty`."""
        self._check_anchors_move()
        images, labels, query_mask = tf.keras.utils.unpack_x_y_sample_weight(data)
        embedder_variables = self.embedder.trainable_variables
        loss_variables = self._loss_variables()
        with tf.GradientTape() as tape:
            embeddings = self.embedder(images, training=True)
            embeddings, labels, query_mask = replicas.whole_batch(tape, embeddings, labels, query_mask)
            loss = own_loss = tf.cast(self.metric_loss(labels, embeddings, query_mask), tf.float32)
            if self.embedder.losses:
                terms = tf.add_n([tf.cast(term, tf.float32) for term in self.embedder.losses])
                # Of these each replica has its share in the sum of gradients.
                loss, own_loss = loss + replicas.mean(terms), own_loss + terms / replicas.count()
            scaled_loss = self.optimizer.get_scaled_loss(own_loss) if self._scales_loss else own_loss
        gradients = tape.gradient(scaled_loss, embedder_variables + loss_variables)
        if self._scales_loss:
            gradients = self.optimizer.get_unscaled_gradients(gradients)
        size = len(embedder_variables)
        gradients = replicas.summed(gradients[:size], gradients[size:])
        penalty = tf.zeros([])
        if self.proximal.is_active:
            penalty, pull = self.proximal.penalty_and_gradients(self.step)
            # The loss's own variables come last and are not pulled: zip leaves them as they are.
            pulled = [p if g is None else g + tf.cast(p, g.dtype) for g, p in zip(gradients, pull)]
            gradients = pulled + gradients[len(pulled) :]
            if self.proximal.lagged:
                self.proximal.follow(self.step)
        replicas.apply_summed(self.optimizer, gradients, embedder_variables + loss_variables)
        if self.stop_vote is not None:
            self.stop_vote.count()
        if self.representative_tap is not None:
            self.representative_tap.record(labels, embeddings)
        self._record(embeddings, loss, penalty)
        return {metric.name: metric.result() for metric in self.metrics}

    @property
    def _scales_loss(self) -> bool:
        return isinstance(self.optimizer, tf.keras.mixed_precision.LossScaleOptimizer)

    def _loss_variables(self) -> list:
        return list(getattr(self.metric_loss, "trainable_variables", ()))

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
