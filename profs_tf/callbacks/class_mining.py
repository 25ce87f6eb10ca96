"""Hands a training step's embeddings back to the sampler that mines classes.

Shapes: L classes, C classes in a batch, D embedding dimension.
"""

from typing import Optional

import numpy as np
import tensorflow as tf

from profs_tf.callbacks.step_link import StepLink
from profs_tf.losses import MetricLoss
from profs_tf.models.profs_model import ProfsModel
from profs_tf.models.step_outputs import RepresentativeTap
from profs_tf.sampling.hncm.lagged_memory import LaggedMemory, StepEmbeddings
from profs_tf.sampling.hncm.memory import ClassMemory
from profs_tf.sampling.hncm.sampler import MinedBatchSampler


class MiningLink(StepLink[ClassMemory, StepEmbeddings]):
    """Hands over every step's embeddings of representatives, and keeps what a checkpoint needs of them.

    With a loss that holds prototypes it hands over those of all classes as they are after the step: such a
    loss is a softmax over all classes, so every step moves every row. That copies L D numbers (for SoftTriple
    it reads L K D), a fraction of what the step's own update of these variables reads and writes; the tensors
    of the newest ``lag`` steps are kept, 4 L D bytes each.
    """

    used_for, needed = "mines classes", "embeddings"

    def __init__(self, sampler: MinedBatchSampler) -> None:
        """Takes the sampler; `begin` prepares it."""
        super().__init__(sampler)
        self._loss: Optional[MetricLoss] = None
        self._dim = 0
        # Used with a loss that holds no prototypes.
        self._tap: RepresentativeTap

    def _prepare(self, model: ProfsModel) -> None:
        self._loss = model.metric_loss
        vectors = self._class_vectors()
        if vectors is None:
            self._install_tap(model)
        elif len(vectors) != self._sampler.num_classes:
            raise ValueError(
                f"`num_classes` of the loss must be the sampler's {self._sampler.num_classes} for class "
                f"mining, got {len(vectors)}."
            )
        self._dim = _embedding_dim(model.embedder) if vectors is None else vectors.shape[1]

    def _new_history(self, first_step: int) -> LaggedMemory:
        history = LaggedMemory(self._sampler.num_classes, self._dim, self._sampler.lag)
        vectors = self._class_vectors()
        if vectors is not None:
            history.memory.replace(vectors)
        return history

    def _message(self, step: int) -> StepEmbeddings:
        vectors, classes = self._class_vectors(), None
        if vectors is None:
            vectors, classes = self._tap.embeddings.read_value(), self._tap.classes.read_value()
        return StepEmbeddings(step, classes, vectors)

    def _missed_message(self, step: int) -> StepEmbeddings:
        vectors = self._class_vectors()
        if vectors is None:
            return StepEmbeddings(step, np.empty(0, np.int64), np.empty((0, self._dim), np.float32))
        return StepEmbeddings(step, None, vectors)

    def _class_vectors(self) -> Optional[tf.Tensor]:
        """Returns the loss's present prototypes, one vector per class; None without any."""
        return self._loss.class_vectors() if self._loss is not None else None

    def _install_tap(self, model: ProfsModel) -> None:
        shape = [self._sampler.classes_per_batch, _embedding_dim(model.embedder)]
        if model.representative_tap is None or model.representative_tap.embeddings.shape != shape:
            model.representative_tap = RepresentativeTap(*shape)
            # An existing train function was traced without it, or with one of another sampler.
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
