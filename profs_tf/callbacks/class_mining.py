"""The one step back in the flow of data: a training step's embeddings go to the sampler that mines classes.

Shapes: L classes, C classes in a batch, D embedding dimension.
"""

from collections.abc import Mapping
from typing import Optional

import numpy as np
import tensorflow as tf

from profs_tf.losses import MetricLoss
from profs_tf.models.profs_model import ProfsModel, RepresentativeTap
from profs_tf.sampling.hncm.feed import StepEmbeddings
from profs_tf.sampling.hncm.sampler import MinedBatchSampler, MiningHistory


class MiningLink:
    """Hands every step's embeddings of representatives over, and keeps what a checkpoint needs of them.

    Where the loss holds vectors of classes, it hands over those of all classes as they are after the step:
    such a loss is a softmax over all classes, so its every step moves every row. That copies L D numbers (for
    SoftTriple it reads L K D), a fraction of what the step's own update of these variables reads and writes;
    the tensors of the newest ``lag`` steps are kept, 4 L D bytes each.
    """

    def __init__(self, sampler: MinedBatchSampler) -> None:
        """Links nothing yet; `begin` does."""
        self._sampler = sampler
        self._history: Optional[MiningHistory] = None
        self._loss: Optional[MetricLoss] = None
        # Of a training whose loss has no vectors of classes.
        self._tap: RepresentativeTap
        self._restored: Mapping[str, np.ndarray] = {}

    def state(self) -> dict[str, np.ndarray]:
        """Returns the history as arrays by name; empty before training began."""
        return self._history.arrays() if self._history is not None else {}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Takes over what `state` returned, at the next `begin`."""
        self._restored = state

    def begin(self, model: tf.keras.Model, first_step: int, steps_per_execution: int) -> None:
        """Prepares model and sampler for a training from a step on.

        Raises:
            ValueError: if the model or the number of steps in an execution does not go with mining.
        """
        if not isinstance(model, ProfsModel):
            raise ValueError(
                f"`sampler` mines classes, which needs a ProfsModel, got a {type(model).__name__}: "
                "a stock model does not tell its embeddings."
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
        if self._history is None:
            dim = _embedding_dim(model.embedder) if vectors is None else vectors.shape[1]
            self._history = MiningHistory(self._sampler.num_classes, dim, self._sampler.lag)
            if vectors is not None:
                self._history.memory.replace(vectors)
        if self._restored:
            self._history.restore(self._restored)
            self._restored = {}
        self._sampler.begin(first_step, self._history)
        # Training that ends in an error does not get to `end`.
        model.at_fit_end(self.end)

    def end(self) -> None:
        """No more steps will come; must be called while the pipeline's iterator exists.

        The iterator cannot be destroyed while the sampler waits within it.
        """
        self._sampler.feed.close()

    def step_begins(self) -> None:
        """The trainer is in a step: its embeddings are due."""
        self._sampler.feed.is_stepping = True

    def step_ends(self, step: int) -> None:
        """Hands over what the step computed.

        Raises:
            ValueError: if `begin` was not called.
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
        self._sampler.feed.put(message)
        self._sampler.feed.is_stepping = False

    def _class_vectors(self) -> Optional[tf.Tensor]:
        """Returns the loss's vectors of classes as they are now; None where it has none."""
        return self._loss.class_vectors() if self._loss is not None else None

    def _install_tap(self, model: ProfsModel) -> None:
        if model.representative_tap is None:
            dim = _embedding_dim(model.embedder)
            model.representative_tap = RepresentativeTap(self._sampler.classes_per_batch, dim)
            # The train function that is there was traced without it.
            model.make_train_function(force=True)
        self._tap = model.representative_tap


def _embedding_dim(embedder: tf.keras.Model) -> int:
    """Returns D of a built embedder; a subclassed model does not know it, only what it was called with.

    Raises:
        ValueError: if it was never called.
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
