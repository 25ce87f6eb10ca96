"""The two callbacks of PROFS: one swaps the anchor weights every M steps, one evaluates on unseen classes."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

import numpy as np
import tensorflow as tf
from absl import logging

from profs_tf.callbacks.class_mining import MiningLink
from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.preprocessing import Preprocessing
from profs_tf.metrics.arguments import check_ks
from profs_tf.metrics.scores import CLUSTERING, embed, evaluate
from profs_tf.models.profs_model import TERMS
from profs_tf.models.proximal import ProximalTerm
from profs_tf.sampling.batch_sampler import BatchSampler
from profs_tf.sampling.hncm.sampler import MinedBatchSampler


class ProfsCallback(tf.keras.callbacks.Callback):
    """Begins projections: copies the weights into the anchors before every M-th step.

    It follows the sampler's schedule by its own step count; the two never talk while training runs. With
    M = 1 it has the anchor lag one step behind instead (see `ProximalTerm`). It reports `projection_index`,
    and stops a run whose loss or penalty is no longer finite.

    With a `MinedBatchSampler` it also hands the embeddings that each step computed for its representatives to
    the sampler, and remembers for checkpoints what mining needs of the past.

    With a stock `tf.keras.Model` there are no anchors: the callback then follows and reports the projections,
    which still choose the representatives, and says so once.
    """

    def __init__(self, sampler: BatchSampler) -> None:
        """Follows the schedule of this sampler.

        Args:
            sampler: the one that gives the training batches. When training begins, its `first_step` is set to
                the number of steps the model has taken.
        """
        super().__init__()
        self.sampler = sampler
        self._step = 0
        self._stride = 1
        self._mining = MiningLink(sampler) if isinstance(sampler, MinedBatchSampler) else None

    def on_train_begin(self, logs: Optional[dict[str, float]] = None) -> None:
        """Takes the step count from the model; refuses a `steps_per_execution` that would miss a swap."""
        schedule = self.sampler.schedule
        stride = getattr(self.model, "_steps_per_execution", None)
        self._stride = 1 if stride is None else int(stride.numpy())
        schedule.check_strides(self._stride, self.params.get("steps"))
        self._step = int(_step_variable(self.model).numpy())
        self.sampler.first_step = self._step
        if self._mining:
            self._mining.begin(self.model, self._step, self._stride)
        if self._proximal is None:
            logging.warning(
                "The model is a %s, which has no anchor weights: batches follow the projections, but the "
                "proximal penalty is not applied. Use ProfsModel for it.",
                type(self.model).__name__,
            )
            return
        lagged = schedule.steps_per_projection == 1
        if self._proximal.lagged != lagged or not self._proximal.in_use:
            self._proximal.lagged = lagged
            self._proximal.in_use = True
            self.model.make_train_function(force=True)
        if lagged and self._step == 0:
            self._proximal.swap(0)

    def on_train_batch_begin(self, batch: int, logs: Optional[dict[str, float]] = None) -> None:
        """Swaps the anchors where a projection begins."""
        if self._mining:
            self._mining.step_begins()
        if self._proximal is None or self._proximal.lagged:
            return
        if self.sampler.schedule.begins_projection(self._step):
            self._proximal.swap(self.sampler.schedule.projection_index(self._step))

    def on_train_batch_end(self, batch: int, logs: Optional[dict[str, float]] = None) -> None:
        """Counts the steps of one call of the train function; hands its embeddings to the miner."""
        if self._mining:
            self._mining.step_ends(self._step)
        self._step += self._stride
        self._stop_if_not_finite()

    def on_train_end(self, logs: Optional[dict[str, float]] = None) -> None:
        """Ends the miner's waiting for more steps."""
        if self._mining:
            self._mining.end()

    def on_epoch_end(self, epoch: int, logs: Optional[dict[str, float]] = None) -> None:
        """Adds `projection_index`, that of the last step taken, to the logs."""
        if logs is not None:
            logs["projection_index"] = self.sampler.schedule.projection_index(max(self._step - 1, 0))

    def state(self) -> dict[str, np.ndarray]:
        """Returns what a resumed run needs, arrays by name: with class mining its history."""
        return self._mining.state() if self._mining else {}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Takes over what `state` returned."""
        if self._mining:
            self._mining.restore(state)

    @property
    def _proximal(self) -> Optional[ProximalTerm]:
        return getattr(self.model, "proximal", None)

    def _stop_if_not_finite(self) -> None:
        steps = getattr(self.model, "non_finite_steps", None)
        if steps is None:
            return
        for term, step in zip(TERMS, steps.numpy()):
            if step >= 0:
                raise NonFiniteLossError(term, step)


class NonFiniteLossError(ArithmeticError):
    """Embeddings, loss or proximal penalty are infinite or not a number."""

    def __init__(self, term: str, step: int):
        """Names one of `TERMS` and the first step, counted from 0, that had or would have it."""
        super().__init__(
            f"`{term}` is not finite since step {step}. Training stopped; earlier checkpoints are untouched. "
            "Lower the learning rate, or look at the batches of that step and the one before."
        )


def _step_variable(model: tf.keras.Model) -> tf.Variable:
    """Returns the number of steps that a model has taken; a stock model's optimiser counts them."""
    own = getattr(model, "step", None)
    return model.optimizer.iterations if own is None else own


class RecallCallback(tf.keras.callbacks.Callback):
    """Embeds a test split at the end of epochs, reports Recall@K and keeps the best epoch's weights.

    Adds to the epoch's logs: `recall@K` for each K, `mrr`, `mean_pairwise_distance`, `evaluation_seconds`,
    and with clustering `nmi`, `f1` and `ami`. All are fractions; the best epoch is that of the highest recall
    at the smallest K, the earliest of equals.

    Attributes:
        best: the best epoch's metrics with its `epoch` (counted from 1; 0 is the untrained network), or {}.
        untrained: the metrics before the first step, or {} where `evaluate_untrained` is off.
    """

    def __init__(
        self,
        image_list: ImageList,
        ks: Sequence[int] = (1, 2, 4, 8),
        *,
        preprocessing: Optional[Preprocessing] = None,
        batch_size: int = 128,
        every_epochs: int = 1,
        clustering: str = "never",
        seed: int = 0,
        best_weights_path: Optional[str] = None,
        evaluate_untrained: bool = False,
        patience: Optional[int] = None,
        verbose: bool = True,
        on_embeddings: Optional[Callable[[int, np.ndarray], None]] = None,
        last_epoch: Optional[int] = None,
    ) -> None:
        """Prepares evaluation on a split.

        Args:
            image_list: the test split; none of its classes should be among the training classes.
            ks: the K of Recall@K.
            preprocessing: None takes `images.preprocessing_for(image_list)`, as the pipeline does.
            batch_size: images embedded at once.
            every_epochs: evaluate after every so many epochs, and after the last.
            clustering: "every_epoch" adds NMI and F1 to each evaluation; "never" and "best" leave them out
                here ("best": the train command clusters the best epoch's embeddings, once, at the end).
            seed: of k-means.
            best_weights_path: where the best epoch's weights go (a TensorFlow checkpoint prefix); None
                keeps none.
            evaluate_untrained: whether to evaluate before the first step, too.
            patience: stop training after so many evaluations without a new best; None never stops.
            verbose: whether to print a line for each evaluation.
            on_embeddings: called with the epoch (0: untrained) and the embeddings, float32 [N, D], of each
                evaluation.
            last_epoch: the epoch (counted from 1) that is evaluated whatever `every_epochs`; None takes the
                last of `fit`. For a run that calls `fit` several times.

        Raises:
            ValueError: if `ks`, `every_epochs`, `patience` or `clustering` is out of range.
        """
        super().__init__()
        self.ks = check_ks(ks, len(image_list) - 1)
        if every_epochs < 1:
            raise ValueError(f"`every_epochs` must be >= 1, got {every_epochs}.")
        if patience is not None and patience < 1:
            raise ValueError(f"`patience` must be >= 1 or None, got {patience}.")
        if clustering not in CLUSTERING:
            raise ValueError(f"`clustering` must be one of {', '.join(CLUSTERING)}, got {clustering!r}.")
        self.image_list = image_list
        self.preprocessing = preprocessing
        self.batch_size = batch_size
        self.every_epochs = every_epochs
        self.clustering = clustering
        self.seed = seed
        self.best_weights_path = best_weights_path
        self.evaluate_untrained = evaluate_untrained
        self.patience = patience
        self.verbose = verbose
        self.on_embeddings = on_embeddings
        self.last_epoch = last_epoch
        self.best: dict[str, float] = {}
        self.untrained: dict[str, float] = {}
        self._evaluations_since_best = 0

    def state(self) -> dict[str, Any]:
        """Returns what a resumed run needs, as plain values for JSON."""
        return {"best": self.best, "untrained": self.untrained, "since_best": self._evaluations_since_best}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Takes over what `state` returned."""
        self.best, self.untrained = state["best"], state["untrained"]
        self._evaluations_since_best = state["since_best"]

    def on_train_begin(self, logs: Optional[dict[str, float]] = None) -> None:
        """Evaluates the untrained network, once."""
        if self.evaluate_untrained and not self.untrained:
            self.untrained = self._evaluate(0)

    def on_epoch_end(self, epoch: int, logs: Optional[dict[str, float]] = None) -> None:
        """Evaluates, adds the metrics to the logs, keeps the weights if they are the best."""
        last = (self.params or {}).get("epochs") if self.last_epoch is None else self.last_epoch
        if (epoch + 1) % self.every_epochs and epoch + 1 != last:
            return
        metrics = self._evaluate(epoch + 1)
        if logs is not None:
            logs.update(metrics)
        monitored = f"recall@{min(self.ks)}"
        if not self.best or metrics[monitored] > self.best[monitored]:
            self.best = {"epoch": epoch + 1, **metrics}
            self._evaluations_since_best = 0
            if self.best_weights_path:
                self._embedder.save_weights(self.best_weights_path)
            return
        self._evaluations_since_best += 1
        if self.patience is not None and self._evaluations_since_best >= self.patience:
            self.model.stop_training = True
            print(
                f"No better {monitored} in {self._evaluations_since_best} evaluations: stopping.", flush=True
            )

    @property
    def _embedder(self) -> tf.keras.Model:
        return getattr(self.model, "embedder", self.model)

    def _evaluate(self, epoch: int) -> dict[str, float]:
        begin = time.monotonic()
        embeddings = embed(
            self._embedder, self.image_list, preprocessing=self.preprocessing, batch_size=self.batch_size
        )
        if epoch and not np.isfinite(embeddings).all():
            # No step has seen what the last one made of the weights.
            raise NonFiniteLossError(TERMS[0], int(_step_variable(self.model).numpy()))
        metrics = evaluate(
            embeddings,
            self.image_list.labels,
            ks=self.ks,
            clustering=self.clustering == "every_epoch",
            seed=self.seed,
        )
        # The same at every epoch: no figure for a log.
        del metrics["left_out"]
        metrics["evaluation_seconds"] = time.monotonic() - begin
        if self.on_embeddings is not None:
            self.on_embeddings(epoch, embeddings)
        if self.verbose:
            shown = "  ".join(
                f"{name} {value:.4f}" for name, value in metrics.items() if "seconds" not in name
            )
            print(f"\nepoch {epoch}: {shown}", flush=True)
        return metrics
