"""The one step back in the flow of data: a training step's embeddings go to the sampler that mines classes.

Shapes: C classes in a batch, D embedding dimension.
"""

import tensorflow as tf

from profs_tf.model import ProfsModel, RepresentativeTap
from profs_tf.sampling.embedding_feed import StepEmbeddings
from profs_tf.sampling.mined_sampler import MinedBatchSampler, MiningHistory


class MiningLink:
    """Hands every step's embeddings of representatives over, and keeps what a checkpoint needs of them."""

    def __init__(self, sampler: MinedBatchSampler):
        """Links nothing yet; `begin` does."""
        self._sampler = sampler
        self._history = None
        self._tap = None
        self._restored = {}

    def state(self) -> dict:
        """Returns the history as arrays by name; empty before training began."""
        return self._history.arrays() if self._history is not None else {}

    def restore(self, state: dict) -> None:
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
        shape = self._sampler.classes_per_batch, model.embedder.output_shape[-1]
        if self._history is None:
            self._history = MiningHistory(self._sampler.num_classes, shape[1], self._sampler.lag)
        if self._restored:
            self._history.restore(self._restored)
            self._restored = {}
        if model.representative_tap is None:
            model.representative_tap = RepresentativeTap(*shape)
            # The train function that is there was traced without it.
            model.make_train_function(force=True)
        self._tap = model.representative_tap
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
        """Hands over what the step computed."""
        # Tensors, not arrays: on a GPU the sampler's thread waits for their values, not this one.
        message = StepEmbeddings(step, self._tap.classes.read_value(), self._tap.embeddings.read_value())
        self._history.add(message)
        self._sampler.feed.put(message)
        self._sampler.feed.is_stepping = False
