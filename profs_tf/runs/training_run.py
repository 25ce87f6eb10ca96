"""One training run in memory: its parts, built by `train.prepare`, and its callbacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Optional, Union

import tensorflow as tf

from profs_tf.callbacks.ccp import CcpCallback
from profs_tf.callbacks.profs import ProfsCallback
from profs_tf.callbacks.recall import RecallCallback
from profs_tf.config import Config
from profs_tf.datasets.class_split import shared_classes
from profs_tf.datasets.image_list import ImageList
from profs_tf.distribution.strategy import is_chief
from profs_tf.inputs.features import FeatureList
from profs_tf.inputs.preprocessing import Preprocessing
from profs_tf.models.callback_states import Stateful
from profs_tf.models.profs_model import ProfsModel
from profs_tf.runs.checkpoint import RunCheckpoint
from profs_tf.runs.directory import RunFolder
from profs_tf.runs.fine_tuning import head_warm_up, plateau_schedule
from profs_tf.runs.log import RunLog
from profs_tf.runs.loop import progress_callbacks
from profs_tf.sampling.batch_sampler import BatchSampler
from profs_tf.visual.tensorboard import EmbeddingBoard


class RunFeatures(NamedTuple):
    """The pooled features of the images of a run."""

    train: FeatureList
    test: FeatureList
    projection: Optional[FeatureList] = None

    def held_out(self, train_images: ImageList, projection_images: ImageList) -> RunFeatures:
        """Returns the features with those of the training images parted as the images are."""
        train, projection = (
            self.train.of_classes(images.class_names) for images in (train_images, projection_images)
        )
        return RunFeatures(train, self.test, projection)


@dataclass(frozen=True)
class TrainingRun:
    """The parts of a run.

    Attributes:
        config: Every option.
        strategy: Of one replica or several.
        folder: Where this process writes: the run's folder for the chief, a temporary one for other workers,
            whose `shared` is the run's.
        train_images: The training split.
        test_images: The split that is evaluated: the test classes, or those held out of training.
        preprocessing: From pictures to the network's input.
        sampler: Draws the representatives of each projection and the batches around them.
        embedder: From images to embeddings.
        model: The compiled model: the embedder, or with `train_layers` head its head; loss, anchor weights.
        steps_per_epoch: Steps in an epoch.
        progress: What is shown while training.
        projection_images: With CCP the training classes that are held out to end projections; None otherwise.
        features: With `train_layers` head what the model reads in place of images; None otherwise.
    """

    config: Config
    strategy: tf.distribute.Strategy
    folder: RunFolder
    train_images: ImageList
    test_images: ImageList
    preprocessing: Preprocessing
    sampler: BatchSampler
    embedder: tf.keras.Model
    model: ProfsModel
    steps_per_epoch: int
    progress: str
    projection_images: Optional[ImageList] = None
    features: Optional[RunFeatures] = None

    @property
    def is_chief(self) -> bool:
        """Whether this process prints, evaluates for the user and exports."""
        return is_chief(self.strategy)

    @property
    def test_inputs(self) -> Union[ImageList, FeatureList]:
        """What the model embeds in an evaluation."""
        return self.test_images if self.features is None else self.features.test

    @property
    def num_shared_classes(self) -> int:
        """Number of test classes that also train; 0 unless the data set's own split shares classes."""
        return len(shared_classes(self.train_images, self.test_images))


@dataclass(frozen=True)
class RunCallbacks:
    """What accompanies training.

    Attributes:
        projections: Begins each projection: sets the anchor to the current weights.
        recall: Evaluates epochs and keeps the weights of the best one.
        log: Writes log.csv and TensorBoard's scalars.
        board: Writes TensorBoard's histograms, pictures and projector; `recall` calls it.
        checkpoint: Saves the whole state.
        learning: Change learning rates over time.
    """

    projections: ProfsCallback
    recall: RecallCallback
    log: RunLog
    board: EmbeddingBoard
    checkpoint: RunCheckpoint
    learning: tuple[tf.keras.callbacks.Callback, ...] = ()

    def in_order(self, progress: str) -> list[tf.keras.callbacks.Callback]:
        """Returns Keras's list. The checkpoint comes last: it saves what the others did at an epoch's end."""
        first = [self.projections, self.recall]
        if isinstance(self.projections, CcpCallback):
            # It may return to earlier weights when an epoch ends.
            first.reverse()
        shown = progress_callbacks(progress)
        return [*first, self.log, *self.learning, *shown, self.checkpoint]


def build_callbacks(run: TrainingRun) -> RunCallbacks:
    """Returns the callbacks of a run."""
    config, folder = run.config, run.folder
    if config.tensorboard == "none":
        events = tf.summary.create_noop_writer()
    else:
        events = tf.summary.create_file_writer(str(folder.tensorboard))
    board = EmbeddingBoard(folder.tensorboard, events, run.test_images, config.tensorboard)
    recall = RecallCallback(
        run.test_inputs,
        config.ks,
        preprocessing=run.preprocessing,
        batch_size=config.batch_size,
        every_epochs=config.evaluate_every,
        map_at_r=config.map_at_r,
        clustering=config.clustering,
        seed=config.seed,
        best_weights_path=str(folder.best_weights),
        evaluate_untrained=True,
        patience=config.patience,
        verbose=run.is_chief,
        on_embeddings=lambda epoch, embeddings: board.write(epoch * run.steps_per_epoch, embeddings),
        last_epoch=config.epochs,
        whole_embedder=run.embedder,
    )
    log = RunLog(folder.log, events, run.sampler.batch_size, recall)
    projections = _projections(run)
    warm_up, plateau = head_warm_up(config), plateau_schedule(config, run.is_chief)
    stateful: dict[str, Stateful] = {"recall": recall, "projections": projections}
    if plateau is not None:
        stateful["plateau"] = plateau
    checkpoint = RunCheckpoint(
        folder.checkpoints,
        run.model,
        stateful,
        config.checkpoint_every_steps,
        restore_from=folder.shared.checkpoints,
    )
    learning = tuple(callback for callback in (warm_up, plateau) if callback is not None)
    return RunCallbacks(projections, recall, log, board, checkpoint, learning)


def _projections(run: TrainingRun) -> ProfsCallback:
    """Returns the callback that begins projections."""
    if run.projection_images is None:
        return ProfsCallback(run.sampler)
    config = run.config
    inputs: tuple[Union[ImageList, FeatureList], ...] = run.train_images, run.projection_images
    if run.features is not None and run.features.projection is not None:
        inputs = run.features.train, run.features.projection
    return CcpCallback(
        run.sampler,
        inputs[0],
        inputs[1],
        preprocessing=run.preprocessing,
        pool_size=config.ccp.pool_size,
        patience=config.ccp.patience,
        start=config.ccp.start,
        every_epochs=config.evaluate_every,
        batch_size=config.batch_size,
        verbose=run.is_chief,
    )
