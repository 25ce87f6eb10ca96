"""One training step of PROFS: embed, loss, gradients, proximal gradient, optimizer (paper, Algorithm 1).

Shapes: B images in a batch, D embedding dimension.
"""

from collections.abc import Callable
from typing import Any, Optional, Union

import tensorflow as tf

from profs_tf.distribution import collectives
from profs_tf.losses import MetricLoss
from profs_tf.models import keras_contract, loss_scaling
from profs_tf.models.fit_guard import FitGuard
from profs_tf.models.non_finite import TERMS, FiniteWatch
from profs_tf.models.proximal import ProximalTerm, ProximalWeight, check_proximal_weight
from profs_tf.models.saving import LoadableMean, SavedByKeras
from profs_tf.models.step_outputs import BatchFingerprint, LossTap, RepresentativeTap
from profs_tf.utils.legacy_keras import check_keras_2


@tf.keras.utils.register_keras_serializable("profs_tf")
class ProfsModel(SavedByKeras):
    """Trains an embedder with a metric-learning loss and the pull towards the anchor weights.

    The model trains on Keras's triple ``(images, labels, is_representative)``; the loss reads the third as
    the mask of images that may act as queries. Its outputs are the embedder's. Export the embedder alone:
    ``model.embedder.save(path)``. `tf.train.Checkpoint`, `save_weights` in both formats and
    ``save("model.keras")`` hold the state of training: weights, anchors, the variables of loss and optimizer,
    and the step.

    Attributes:
        embedder: The Keras model that is trained, [B, H, W, 3] to [B, D] (or any input the data gives).
        proximal: The `ProximalTerm`, created by `compile`.
        step: int64 scalar variable, optimizer steps taken; the clock of sampler and callback on resuming.
        steps_taken: Its value.
        representative_tap: `RepresentativeTap` that training steps fill, or None without class mining.
        loss_tap: `LossTap` that training steps fill, or None unless projections end by the loss.
        stop_request: `StopRequest` of several workers, created by `compile`; None elsewhere.
        non_finite_steps: int64 [3] variable of the `finite_watch`; checkpoints hold it.
        finite_watch: `FiniteWatch`, the first steps that were not finite.
        batch_fingerprint: `BatchFingerprint` of the last step's labels.
    """

    def __init__(
        self, embedder: tf.keras.Model, proximal_weight: ProximalWeight = 1e-3, **kwargs: Any
    ) -> None:
        """Wraps an embedder.

        Args:
            embedder: Any built Keras model that gives [B, D] embeddings.
            proximal_weight: lambda; 0 leaves the term out. A number, or a Keras learning-rate schedule.
            **kwargs: As for `tf.keras.Model`, such as `name`.

        Raises:
            ValueError: If the embedder has no variables yet or is of Keras 3, or `proximal_weight` is out of
                range.
        """
        super().__init__(**kwargs)
        check_keras_2("embedder", embedder)
        if not embedder.built:
            raise ValueError(
                "`embedder` must be built, got one without variables. Call it once on a batch of images, "
                "or build it with an input shape."
            )
        self.embedder = embedder
        self._proximal_weight = check_proximal_weight(proximal_weight)
        integer = {"trainable": False, "dtype": tf.int64, **collectives.PER_REPLICA}
        self.step = tf.Variable(0, name="step", **integer)
        self.non_finite_steps = tf.Variable([-1] * (len(TERMS) - 1), name="non_finite_steps", **integer)
        self.finite_watch = FiniteWatch(self.non_finite_steps)
        self.batch_fingerprint = BatchFingerprint()
        self._layers_of_embedder = [layer for layer in embedder.submodules if hasattr(layer, "trainable")]
        self._compiled_trainable: Optional[tuple[bool, ...]] = None
        # Every replica reports the loss of the whole batch; Keras would add them up.
        self.distribute_reduction_method = "first"
        self.representative_tap: Optional[RepresentativeTap] = None
        self.loss_tap: Optional[LossTap] = None
        self.stop_request: Optional[collectives.StopRequest] = None
        self._at_fit_end: list[Callable[[], None]] = []
        self.loss_tracker = LoadableMean(name="loss")
        self.penalty_tracker = LoadableMean(name="proximal_penalty")
        self.built = True

    def call(self, images: tf.Tensor, training: Optional[bool] = None) -> tf.Tensor:
        """Returns the embeddings, [B, D]."""
        return self.embedder(images, training=training)

    def compile(
        self, optimizer: Union[str, tf.keras.optimizers.Optimizer], loss: MetricLoss, **kwargs: Any
    ) -> None:
        """As `tf.keras.Model.compile`; creates the anchors of the variables that are trainable now.

        The variables that a loss owns (boundary, centers, proxies) are trained and saved with the model. With
        a `HeadAdam` they learn at the loss's own `variable_learning_rate`, unless they have a multiplier.

        Args:
            optimizer: As for Keras.
            loss: A `MetricLoss`, one of ``profs_tf.losses`` or of your own.
            **kwargs: As for Keras, without `metrics`, `weighted_metrics` and `loss_weights`.

        Raises:
            ValueError: If the loss is no `MetricLoss`, or the optimizer is of Keras 3; if an argument is
                given that would have no effect; if embedder, loss or optimizer were made outside the
                strategy's scope of this model.
        """
        check_keras_2("optimizer", optimizer)
        keras_contract.check_loss(loss)
        keras_contract.check_compile(kwargs, self.embedder)
        super().compile(optimizer=optimizer, loss=loss, **kwargs)
        self.metric_loss = loss
        strategy = self.distribute_strategy
        collectives.check_made_in_scope(strategy, "embedder", self.embedder.variables)
        collectives.check_made_in_scope(strategy, "loss", loss.variables)
        trained = self.embedder.trainable_variables + self._loss_variables()
        keras_contract.check_optimizer(self.optimizer, trained)
        with strategy.scope():
            self.proximal = ProximalTerm(self.embedder.trainable_variables, self._proximal_weight)
            self.stop_request = collectives.StopRequest() if collectives.is_multi_worker(strategy) else None
        inner = loss_scaling.inner_optimizer(self.optimizer)
        own_rate = self.metric_loss.variables_at_own_rate
        if own_rate and hasattr(inner, "set_default_rate"):
            inner.set_default_rate(own_rate, self.metric_loss.variable_learning_rate)
        if hasattr(self.optimizer, "build"):
            # Here, not at the first step: a checkpoint can then be checked for holding every moment.
            with strategy.scope():
                self.optimizer.build(trained)
        keras_contract.check_built(inner, trained)

    def fit(self, x: Any = None, *arguments: Any, **options: Any) -> tf.keras.callbacks.History:
        """As `tf.keras.Model.fit`; see `FitGuard` for what is checked before and while training.

        Raises:
            ValueError: If an argument, a callback or the data does not go with this model.
            NonFiniteLossError: If a step computes infinite or NaN values.
        """
        self._assert_compile_was_called()
        given = keras_contract.arguments_of(tf.keras.Model.fit, (x, *arguments), options)
        keras_contract.check_fit(given)
        collectives.check_input(self.distribute_strategy, x)
        guard = FitGuard(self, x, given.get("callbacks"))
        given["callbacks"] = guard.begin()
        self._follow_trainable()
        try:
            return super().fit(**given)
        finally:
            guard.end()
            while self._at_fit_end:
                self._at_fit_end.pop()()

    def evaluate(
        self, x: Any = None, *arguments: Any, **options: Any
    ) -> Union[float, list[float], dict[str, float]]:
        """As `tf.keras.Model.evaluate`; returns the mean over the batches of what `test_step` computes.

        The loss of a batch depends on its composition: compare values of equal batches only.

        Raises:
            ValueError: If the data is not made for the replicas of this model.
        """
        collectives.check_input(self.distribute_strategy, x)
        return super().evaluate(x, *arguments, **options)

    def train_on_batch(self, x: Any, *arguments: Any, **options: Any) -> Any:
        """As `tf.keras.Model.train_on_batch`, for a loop of your own that calls `proximal.swap`.

        Raises:
            ValueError: If class weights are given, or anchors are not moved.
            NonFiniteLossError: If the step computes infinite or NaN values.
        """
        self._assert_compile_was_called()
        given = keras_contract.arguments_of(tf.keras.Model.train_on_batch, (x, *arguments), options)
        keras_contract.check_class_weight(given.get("class_weight"))
        self.prepare_step()
        self._follow_trainable()
        result = super().train_on_batch(**given)
        self.finite_watch.check()
        return result

    def call_at_fit_end(self, call: Callable[[], None]) -> None:
        """Has a function called once, when the current `fit` ends, with or without an error."""
        self._at_fit_end.append(call)

    @property
    def steps_taken(self) -> int:
        """The value of `step`, also with several replicas."""
        return int(self.step.numpy())

    @property
    def metrics(self) -> list[tf.keras.metrics.Metric]:
        """The means that Keras resets at the start of an epoch."""
        return [self.loss_tracker, self.penalty_tracker]

    def train_step(self, data: tuple[tf.Tensor, ...]) -> dict[str, tf.Tensor]:
        """One step of Algorithm 1; returns the running means `loss` and `proximal_penalty`.

            theta <- theta - alpha * gradient of (lambda/2 ||theta^(k) - theta||^2 + L(theta; batch))

        with the optimizer in place of alpha. The loss's own variables get the gradient of L alone.
        """
        self._check_anchors_move()
        theta, loss_variables = self._embedder_variables(), self._loss_variables()
        with tf.GradientTape() as tape:
            labels, embeddings, loss, replica_loss = self._loss_of(data, training=True, tape=tape)
            scaled_loss = loss_scaling.scale(self.optimizer, replica_loss)
        gradients, loss_gradients = tape.gradient(scaled_loss, (theta, loss_variables))
        gradients, loss_gradients = collectives.sum_gradients(
            loss_scaling.unscale(self.optimizer, gradients),
            loss_scaling.unscale(self.optimizer, loss_gradients),
        )
        penalty, gradients = self.proximal.add_gradients(gradients, theta, self.step)
        self.proximal.follow(self.step)
        collectives.apply_gradients(self.optimizer, gradients + loss_gradients, theta + loss_variables)
        self._record(labels, embeddings, loss, penalty)
        return {metric.name: metric.result() for metric in self.metrics}

    def test_step(self, data: tuple[tf.Tensor, ...]) -> dict[str, tf.Tensor]:
        """Returns the running mean `loss` of batches as in training, without the proximal penalty.

        Args:
            data: Images, labels and, as for training, the optional mask of queries. The embedder runs in
                inference mode; its regularization is part of the loss as it is in training.
        """
        _, _, loss, _ = self._loss_of(data, training=False)
        self.loss_tracker.update_state(loss)
        return {self.loss_tracker.name: self.loss_tracker.result()}

    def prepare_step(self) -> None:
        """Has the step compiled again where a layer was frozen since; call it before a step.

        Raises:
            ValueError: If nothing moves the anchors, or a layer was made trainable since.
        """
        self._check_anchors_move()
        if self._compiled_trainable != self._trainable_flags():
            # Here too: an error in the traced step comes with its stack.
            self.proximal.anchors_of(self.embedder.trainable_variables)
            if self._compiled_trainable is not None:
                self.make_train_function(force=True)

    def _loss_of(
        self, data: tuple[tf.Tensor, ...], training: bool, tape: Optional[tf.GradientTape] = None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns the whole batch's labels, embeddings and loss, and what this replica differentiates."""
        images, labels, query_mask = tf.keras.utils.unpack_x_y_sample_weight(data)
        embeddings = self.embedder(images, training=training)
        embeddings, labels, query_mask = collectives.gather_batch(tape, embeddings, labels, query_mask)
        loss_of = self.metric_loss.training_step if training else self.metric_loss
        loss = replica_loss = tf.cast(loss_of(labels, embeddings, query_mask), tf.float32)
        if self.embedder.losses:
            terms = tf.add_n([tf.cast(term, tf.float32) for term in self.embedder.losses])
            # Each replica's share of these in the sum of gradients.
            share = terms / collectives.num_replicas()
            loss, replica_loss = loss + collectives.replica_mean(terms), replica_loss + share
        return labels, embeddings, loss, replica_loss

    def _record(self, labels: tf.Tensor, embeddings: tf.Tensor, loss: tf.Tensor, penalty: tf.Tensor) -> None:
        """Updates the means, what callbacks read, and the step."""
        if self.stop_request is not None:
            self.stop_request.exchange()
        if self.representative_tap is not None:
            self.representative_tap.record(labels, embeddings)
        if self.loss_tap is not None:
            self.loss_tap.record(loss)
        self.loss_tracker.update_state(loss)
        self.penalty_tracker.update_state(penalty)
        self.batch_fingerprint.record(labels)
        trained = self._embedder_variables() + self._loss_variables()
        self.finite_watch.record((embeddings, loss, penalty), trained, self.step)
        self.step.assign_add(1)

    def _embedder_variables(self) -> list[tf.Variable]:
        """Returns theta; raises ValueError where a layer was made trainable after `compile`."""
        self._compiled_trainable = self._trainable_flags()
        variables = self.embedder.trainable_variables
        self.proximal.anchors_of(variables)
        return variables

    def _loss_variables(self) -> list[tf.Variable]:
        return list(self.metric_loss.trainable_variables)

    def _follow_trainable(self) -> None:
        """Has layers that were frozen since `compile` stay frozen: Keras would set them back for training."""
        self._compiled_trainable_state.update(self._get_trainable_state())

    def _trainable_flags(self) -> tuple[bool, ...]:
        return tuple(layer.trainable for layer in self._layers_of_embedder)

    def _check_anchors_move(self) -> None:
        if self.proximal.is_active and not self.proximal.in_use:
            raise ValueError(
                "`proximal_weight` > 0 needs the anchor weights moved, but no callback does so. "
                "Pass `callbacks=[ProfsCallback(sampler)]` to `fit`, or `proximal_weight=0.0` to the model."
            )


def steps_taken_by(model: tf.keras.Model) -> int:
    """Returns the number of steps that a model has taken; a stock model's optimizer counts them."""
    own = getattr(model, "step", None)
    return int((model.optimizer.iterations if own is None else own).numpy())
