"""The callback that evaluates Recall@K on held-out classes and keeps the best epoch's weights."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional, Union

import numpy as np
import tensorflow as tf

from profs_tf.callbacks.overfitting import OverfittingWatch
from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.features import FeatureList
from profs_tf.inputs.preprocessing import Preprocessing
from profs_tf.metrics.arguments import check_ks
from profs_tf.metrics.scores import CLUSTERING, evaluate, query_and_gallery
from profs_tf.models.inference import embed
from profs_tf.models.non_finite import TERMS, NonFiniteLossError
from profs_tf.models.profs_model import steps_taken_by
from profs_tf.utils.checks import check_count, check_one_of


class RecallCallback(tf.keras.callbacks.Callback):
    """Embeds a test split at the end of epochs, reports Recall@K and keeps the best epoch's weights.

    Adds to the epoch's logs: `recall@K` for each K, `mrr`, `mean_pairwise_distance`, `evaluation_seconds`,
    and with clustering `nmi`, `f1` and `ami`. All are fractions; the best epoch is that of the highest recall
    at the smallest K, the earliest of equals. With `evaluate_untrained` the network before training is epoch
    0, which training has to beat. Prints a note, once, if the network overfits for long.

    Attributes:
        best: The best epoch's metrics with its `epoch` (counted from 1; 0 is the untrained network), or {}.
        untrained: The metrics before the first step, or {} without `evaluate_untrained`.
    """

    adds_to_logs = True

    def __init__(
        self,
        image_list: Union[ImageList, FeatureList],
        ks: Sequence[int] = (1, 2, 4, 8),
        *,
        preprocessing: Optional[Preprocessing] = None,
        batch_size: int = 128,
        every_epochs: int = 1,
        map_at_r: bool = False,
        clustering: str = "never",
        seed: int = 0,
        best_weights_path: Optional[str] = None,
        evaluate_untrained: bool = False,
        patience: Optional[int] = None,
        verbose: bool = True,
        on_embeddings: Optional[Callable[[int, np.ndarray], None]] = None,
        last_epoch: Optional[int] = None,
        whole_embedder: Optional[tf.keras.Model] = None,
    ) -> None:
        """Prepares evaluation on a split.

        Args:
            image_list: The test split, or its features; none of its classes should train.
            ks: The K of Recall@K.
            preprocessing: None takes `preprocessing_for(image_list)`, as the pipeline does.
            batch_size: Images embedded at once.
            every_epochs: Evaluate after every so many epochs, and after the last, also if training is stopped
                early.
            map_at_r: Whether to add MAP@R and R-precision (`map@r`, `r_precision`) to each evaluation.
            clustering: "every_epoch" adds NMI and F1 to each evaluation; "never" and "best" leave them out
                here ("best": the train command clusters the best epoch's embeddings, once, at the end).
            seed: Of k-means.
            best_weights_path: Where the best epoch's weights go (a TensorFlow checkpoint prefix); None
                keeps none.
            evaluate_untrained: Whether to evaluate before the first step, too, as a candidate for the best.
            patience: Stop training after so many evaluations without a new best; None never stops.
            verbose: Whether to print notes, and a line for each evaluation that Keras does not print with the
                epoch.
            on_embeddings: Called with the epoch (0: untrained) and the embeddings, float32 [N, D], of each
                evaluation.
            last_epoch: The epoch (counted from 1) that is evaluated whatever `every_epochs`; None takes the
                last of `fit`. For a run that calls `fit` several times.
            whole_embedder: The model whose weights are kept, if training and evaluation have only a part of
                it; None keeps those of the model's embedder.

        Raises:
            ValueError: If `ks`, `every_epochs`, `patience` or `clustering` is out of range.
        """
        super().__init__()
        self.ks = check_ks(ks, image_list.num_candidates)
        check_count("every_epochs", every_epochs)
        check_count("batch_size", batch_size)
        if patience is not None:
            check_count("patience", patience, "None never stops.")
        check_one_of("clustering", clustering, CLUSTERING)
        self.image_list = image_list
        self.preprocessing = preprocessing
        self.batch_size = batch_size
        self.every_epochs = every_epochs
        self.map_at_r = map_at_r
        self.clustering = clustering
        self.seed = seed
        self.best_weights_path = best_weights_path
        self.evaluate_untrained = evaluate_untrained
        self.patience = patience
        self.verbose = verbose
        self.on_embeddings = on_embeddings
        self.last_epoch = last_epoch
        self.whole_embedder = whole_embedder
        self.best: dict[str, float] = {}
        self.untrained: dict[str, float] = {}
        self._evaluations_since_best = 0
        self._epoch = 0
        self._evaluated_epoch: Optional[int] = None
        self._continues = False
        self._overfitting = OverfittingWatch()
        self._steps_of_untrained: Optional[int] = None

    def state(self) -> dict[str, Any]:
        """Returns what a resumed run needs, as plain values for JSON."""
        return {
            "best": self.best,
            "untrained": self.untrained,
            "since_best": self._evaluations_since_best,
            "overfitting": self._overfitting.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Takes over what `state` returned."""
        self._continues = True
        self.best, self.untrained = state["best"], state["untrained"]
        self._evaluations_since_best = state["since_best"]
        # Runs of earlier versions have none.
        self._overfitting.restore(state.get("overfitting", self._overfitting.state()))

    @property
    def patience_is_spent(self) -> bool:
        """Whether so many evaluations brought no new best that training is to stop."""
        return self.patience is not None and self._evaluations_since_best >= self.patience

    def on_train_begin(self, logs: Optional[dict[str, float]] = None) -> None:
        """Evaluates the untrained network, once."""
        self._evaluated_epoch = None
        if self.evaluate_untrained and not self.untrained:
            self.untrained = self._evaluate(0)
            self._steps_of_untrained = steps_taken_by(self.model)

    def on_epoch_begin(self, epoch: int, logs: Optional[dict[str, float]] = None) -> None:
        """Once, when all callbacks have started: no earlier best weights may be lost; keeps the untrained.

        Raises:
            ValueError: If `best_weights_path` holds the weights of a run whose best metrics are not known, or
                the best metrics would be lost when another callback restores the model.
        """
        if self._continues:
            return
        self._check_best_is_known()
        if not self.best and self._steps_of_untrained == steps_taken_by(self.model):
            self._keep(0, self.untrained)
        self._continues = True

    def on_epoch_end(self, epoch: int, logs: Optional[dict[str, float]] = None) -> None:
        """Evaluates, adds the metrics to the logs, keeps the weights if they are the best."""
        self._epoch = epoch + 1
        last = (self.params or {}).get("epochs") if self.last_epoch is None else self.last_epoch
        if self._epoch % self.every_epochs and self._epoch != last:
            return
        # Keras prints the logs of an epoch itself if `fit` is verbose.
        shown = logs is not None and bool((self.params or {}).get("verbose"))
        metrics = self._evaluate_and_keep(self._epoch, (logs or {}).get("loss"), shown)
        if logs is not None:
            logs.update(metrics)

    def on_train_end(self, logs: Optional[dict[str, float]] = None) -> None:
        """Evaluates the last epoch if training was stopped after it and before its turn."""
        if self.model.stop_training and self._evaluated_epoch != self._epoch:
            self._evaluate_and_keep(self._epoch)

    def _evaluate_and_keep(
        self, epoch: int, loss: Optional[float] = None, shown: bool = False
    ) -> dict[str, float]:
        """Returns the metrics of an epoch; keeps the weights if they are the best, or stops training."""
        metrics = self._evaluate(epoch, shown)
        self._evaluated_epoch = epoch
        monitored = f"recall@{min(self.ks)}"
        better = not self.best or metrics[monitored] > self.best[monitored]
        if better:
            self._keep(epoch, metrics)
        if loss is not None and self._overfitting.is_news(
            metrics[monitored], self.best[monitored], float(loss), better
        ):
            self._note(self._overfitting.note(monitored, self.best["epoch"]))
        if not better:
            self._evaluations_since_best += 1
        if self.patience_is_spent:
            self.model.stop_training = True
            self._note(f"No better {monitored} in {self._evaluations_since_best} evaluations: stopping.")
        return metrics

    def _note(self, text: str) -> None:
        if self.verbose:
            print(text, flush=True)

    def _keep(self, epoch: int, metrics: Mapping[str, float]) -> None:
        self.best = {"epoch": epoch, **metrics}
        self._evaluations_since_best = 0
        if self.best_weights_path:
            (self.whole_embedder or self._embedder).save_weights(self.best_weights_path)

    def _check_best_is_known(self) -> None:
        if self._embedder is self.model and getattr(self.model, "_training_state", None) is not None:
            raise ValueError(
                "`callbacks` must not hold BackupAndRestore with a stock Keras model, which would forget "
                "the best epoch of RecallCallback. Wrap the model in a ProfsModel."
            )
        kept = self.best_weights_path and os.path.exists(f"{self.best_weights_path}.index")
        if kept and steps_taken_by(self.model) and not self.best:
            raise ValueError(
                f"`best_weights_path` must be a new path, got {self.best_weights_path}, which holds weights "
                "of unknown recall. Name another, or pass the earlier callback's `state()` to `restore`."
            )

    @property
    def _embedder(self) -> tf.keras.Model:
        return getattr(self.model, "embedder", self.model)

    def _evaluate(self, epoch: int, shown: bool = False) -> dict[str, float]:
        begin = time.monotonic()
        embeddings = embed(
            self._embedder, self.image_list, preprocessing=self.preprocessing, batch_size=self.batch_size
        )
        if epoch and not np.isfinite(embeddings).all():
            # No step has seen what the last one made of the weights.
            raise NonFiniteLossError(TERMS[0], steps_taken_by(self.model))
        metrics = evaluate(
            **query_and_gallery(embeddings, self.image_list.labels, self.image_list.is_query),
            ks=self.ks,
            map_at_r=self.map_at_r,
            clustering=self.clustering == "every_epoch",
            seed=self.seed,
        )
        # The same at every epoch: no figure for a log.
        del metrics["left_out"]
        metrics["evaluation_seconds"] = time.monotonic() - begin
        if self.on_embeddings is not None:
            self.on_embeddings(epoch, embeddings)
        if self.verbose and not shown:
            figures = "  ".join(
                f"{name} {value:.4f}" for name, value in metrics.items() if "seconds" not in name
            )
            print(f"\nepoch {epoch}: {figures}", flush=True)
        return metrics
