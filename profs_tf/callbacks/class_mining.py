"""Hands a training step's embeddings back to the sampler that mines classes.

Shapes: L classes, C classes in a batch, D embedding dimension.
"""

from collections.abc import Mapping
from typing import Optional

import numpy as np
import tensorflow as tf

from profs_tf.losses import MetricLoss
from profs_tf.models.profs_model import ProfsModel
from profs_tf.models.step_outputs import RepresentativeTap
from profs_tf.sampling.hncm.feed import StepEmbeddings
from profs_tf.sampling.hncm.lagged_memory import LaggedMemory
from profs_tf.sampling.hncm.sampler import MinedBatchSampler


class MiningLink:
    """Hands over every step's embeddings of representatives, and keeps what a checkpoint needs of them.

    With a loss that holds prototypes it hands over those of all classes as they are after the step: such a
    loss is a softmax over all classes, so every step moves every row. That copies L D numbers (for SoftTriple
    it reads L K D), a fraction of what the step's own update of these variables reads and writes; the tensors
    of the newest ``lag`` steps are kept, 4 L D bytes each.
    """

    def __init__(self, sampler: MinedBatchSampler) -> None:
        """Takes the sampler; `begin` prepares it."""
        self._sampler = sampler
        self._history: Optional[LaggedMemory] = None
        self._loss: Optional[MetricLoss] = None
        # Used with a loss that holds no prototypes.
        self._tap: RepresentativeTap
        self._next_step = 0
        self._restored: Optional[Mapping[str, np.ndarray]] = None

    def state(self) -> dict[str, np.ndarray]:
        """Returns the history as arrays by name; empty before training started."""
        if self._history is None:
            return {}
        return {**self._history.arrays(), "next_step": np.asarray(self._next_step, np.int64)}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Takes over what `state` returned, at the next `begin`; an empty state means an empty memory."""
        self._restored = state

    @property
    def is_restored(self) -> bool:
        """Whether the next `begin` will take over a state."""
        return self._restored is not None

    def begin(self, model: tf.keras.Model, first_step: int, steps_per_execution: int) -> None:
        """Prepares model and sampler for training from a step on.

        Raises:
            ValueError: If the model or the number of steps in an execution does not go with mining, or the
                memory is not that of the steps before.
        """
        if not isinstance(model, ProfsModel):
            raise ValueError(
                f"`sampler` mines classes, which needs a ProfsModel, got a {type(model).__name__}: "
                "a stock model does not expose its embeddings."
            )
        if steps_per_execution != 1:
            raise ValueError(
                f"`steps_per_execution` must be 1 with class mining, got {steps_per_execution}: every step's "
                "embeddings are needed."
            )
        self._loss = model.metric_loss
        vectors = self._class_vectors()
        if vectors is None:
            self._install_tap(model)
        elif len(vectors) != self._sampler.num_classes:
            raise ValueError(
                f"`num_classes` of the loss must be the sampler's {self._sampler.num_classes} for class "
                f"mining, got {len(vectors)}."
            )
        dim = _embedding_dim(model.embedder) if vectors is None else vectors.shape[1]
        self._sampler.begin(first_step, self._history_before(first_step, vectors, dim))
        # Training that ends in an error does not reach `end`.
        model.call_at_fit_end(self.end)

    def end(self) -> None:
        """Tells the sampler that no more steps follow; call it while the pipeline's iterator exists.

        The iterator cannot be destroyed while the sampler waits inside it.
        """
        self._sampler.feed.close()

    def step_begins(self) -> None:
        """Tells the sampler that a step runs, whose embeddings will follow."""
        self._sampler.feed.is_stepping = True

    def step_ends(self, step: int) -> None:
        """Hands over what the step computed.

        Raises:
            ValueError: If `begin` was not called.
        """
        if self._history is None:
            raise ValueError(
                f"`step` must be of a training that `begin` prepared, got step {step} before it."
            )
        # Tensors, not arrays: on a GPU the sampler's thread waits for their values, not this one.
        vectors, classes = self._class_vectors(), None
        if vectors is None:
            vectors, classes = self._tap.embeddings.read_value(), self._tap.classes.read_value()
        message = StepEmbeddings(step, classes, vectors)
        self._history.add(message)
        self._next_step = step + 1
        self._sampler.feed.put(message)
        self._sampler.feed.is_stepping = False

    def _history_before(self, first_step: int, vectors: Optional[tf.Tensor], dim: int) -> LaggedMemory:
        """Returns the history of all steps before `first_step`."""
        fresh = self._history is None or self._restored is not None
        if self._history is None or self._restored is not None:
            self._history = LaggedMemory(self._sampler.num_classes, dim, self._sampler.lag)
            if vectors is not None:
                self._history.memory.replace(vectors)
        if self._restored is not None:
            self._next_step = int(self._restored.get("next_step", first_step))
            if self._restored:
                self._history.restore(self._restored)
            self._restored = None
        elif not fresh and self._next_step == first_step - 1:
            # An error, such as a loss that is not finite, kept the last step from being handed over.
            none_seen = np.empty(0, np.int64), np.empty((0, dim), np.float32)
            self._history.add(
                StepEmbeddings(self._next_step, *(none_seen if vectors is None else (None, vectors)))
            )
            self._next_step = first_step
        if self._next_step != first_step:
            raise ValueError(
                f"`sampler` must mine from all steps before {first_step}, got a memory of the steps before "
                f"{self._next_step}. Pass the saved state to `ProfsCallback.restore`, or `{{}}` to start "
                "with an empty memory."
            )
        return self._history

    def _class_vectors(self) -> Optional[tf.Tensor]:
        """Returns the loss's present prototypes, one vector per class; None without any."""
        return self._loss.class_vectors() if self._loss is not None else None

    def _install_tap(self, model: ProfsModel) -> None:
        if model.representative_tap is None:
            dim = _embedding_dim(model.embedder)
            model.representative_tap = RepresentativeTap(self._sampler.classes_per_batch, dim)
            # An existing train function was traced without it.
            model.make_train_function(force=True)
        self._tap = model.representative_tap


def _embedding_dim(embedder: tf.keras.Model) -> int:
    """Returns D of a built embedder; that of a subclassed model follows from the input it was called with.

    Raises:
        ValueError: If it was never called.
    """
    if hasattr(embedder, "output_shape"):
        return embedder.output_shape[-1]
    spec = embedder.save_spec()
    if spec is None:
        raise ValueError(
            "`embedder` must have been called for class mining, which needs the dimension of its embeddings; "
            "got one that was only built. Call it once on a batch of images."
        )
    return embedder.compute_output_signature(spec[0][0]).shape[-1]
