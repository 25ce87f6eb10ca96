"""The callback of CCP: it ends projections on a plateau of validation and chooses the next prototypes.

Shapes: L classes, b images of a class in the pool, K prototypes of a class, D embedding dimension.

    before the first step:    prototypes from a pool; no pull
    after every evaluation:   a better MAP@R on the validation classes? keep weights and prototypes
    after P without:          anchor weights = the kept weights; with start "best" the weights too
                              prototypes = those of a new pool that lie farthest from the kept prototypes

Gürbüz, Can, Alatan: "Deep Metric Learning with Chance Constraints", arXiv 2209.09060. `docs/ccp.md` lists
where the paper, its authors' code and this package differ.
"""

from collections.abc import Mapping
from typing import Any, Optional, Union

import numpy as np
import tensorflow as tf

from profs_tf.callbacks.profs import ProfsCallback
from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.features import FeatureList
from profs_tf.inputs.preprocessing import Preprocessing
from profs_tf.losses import ChanceConstrainedLoss
from profs_tf.metrics.scores import evaluate, query_and_gallery
from profs_tf.models.inference import embed
from profs_tf.models.non_finite import TERMS, NonFiniteLossError
from profs_tf.models.profs_model import ProfsModel
from profs_tf.models.proximal import ProximalTerm
from profs_tf.sampling.batch_sampler import BatchSampler
from profs_tf.sampling.ccp.k_center import draw_pool, greedy_k_center
from profs_tf.sampling.ccp.plateau import ScorePlateau
from profs_tf.sampling.class_index import ClassTable
from profs_tf.utils.checks import check_count, check_one_of

Images = Union[ImageList, FeatureList]
STARTS = ("present", "best")
SCORE = "validation_map@r"
_WEIGHT = "best_weight_"
_STATISTIC = "best_statistic_"


class CcpCallback(ProfsCallback):
    """Alternates projections as CCP does, for a ProfsModel with a `ChanceConstrainedLoss`.

    A projection ends after so many evaluations without a higher MAP@R on validation classes. The weights of
    its best evaluation become the anchors, and `draw_pool` and `greedy_k_center` choose the next prototypes.
    Adds `projection_index` and `validation_map@r` to the logs. `fit` puts it behind callbacks that evaluate
    an epoch, since it may change the weights when one ends.
    """

    changes_weights = True

    def __init__(
        self,
        sampler: BatchSampler,
        train_images: Images,
        validation_images: Images,
        *,
        preprocessing: Optional[Preprocessing] = None,
        pool_size: int = 12,
        patience: int = 3,
        start: str = "present",
        every_epochs: int = 1,
        batch_size: int = 128,
        verbose: bool = True,
    ) -> None:
        """Follows the batches of a sampler.

        Args:
            sampler: As for `ProfsCallback`, for ordinary batches: ``queries="all", steps_per_projection=1``.
            train_images: The images that the sampler's indices refer to, or their features.
            validation_images: Images, or features, of classes that do not train and are not tested on.
            preprocessing: None takes `preprocessing_for(train_images)`.
            pool_size: b, at least the loss's K.
            patience: P, the evaluations in a row without a higher score that end a projection.
            start: The weights that a projection starts from, and that embed its pool: "present" goes on with
                those that training has reached, "best" with those of the best evaluation.
            every_epochs: Evaluate after every so many epochs.
            batch_size: Images embedded at once.
            verbose: Whether to print a line for each projection.

        Raises:
            ValueError: If an argument is out of range, or sampler and images do not go together.
        """
        super().__init__(sampler)
        check_count("pool_size", pool_size)
        check_count("every_epochs", every_epochs)
        check_count("batch_size", batch_size)
        self._start = check_one_of("start", start, STARTS)
        if sampler.queries != "all" or sampler.steps_per_projection != 1:
            raise ValueError(
                "`sampler` must draw ordinary batches for CCP, got representatives: pass it "
                '`queries="all"` and `steps_per_projection=1`.'
            )
        if len(train_images) != sampler.table.num_images:
            raise ValueError(
                f"`train_images` must be the sampler's {sampler.table.num_images} images, got "
                f"{len(train_images)}."
            )
        _check_same_classes(sampler.table, train_images)
        _check_has_positives(validation_images)
        self._train_images = train_images
        self._validation_images = validation_images
        self._preprocessing = preprocessing
        self._pool_size = pool_size
        self._every_epochs = every_epochs
        self._batch_size = batch_size
        self._verbose = verbose
        self._plateau = ScorePlateau(patience)
        self._best_weights: list[np.ndarray] = []
        self._best_statistics: list[np.ndarray] = []
        self._best_prototypes: Optional[np.ndarray] = None

    def on_train_begin(self, logs: Optional[dict[str, float]] = None) -> None:
        """Chooses the first prototypes, unless training goes on.

        Raises:
            ValueError: If model or loss do not go with the callback.
        """
        loss = self._loss
        if loss.num_classes != self.sampler.num_classes:
            raise ValueError(
                f"`num_classes` of the loss must be the sampler's {self.sampler.num_classes}, got "
                f"{loss.num_classes}."
            )
        if self._pool_size < loss.prototypes_per_class:
            raise ValueError(
                f"`pool_size` must be at least the {loss.prototypes_per_class} prototypes of a class, got "
                f"{self._pool_size}."
            )
        # Anchors that lag are of steps with another callback, which count no projections of CCP.
        begins = self._index < 0 or self.model.proximal.lagged
        super().on_train_begin(logs)
        if begins:
            # Scores and weights of an earlier model are not this one's.
            self._plateau.begin()
            self._best_weights, self._best_statistics, self._best_prototypes = [], [], None
            self.model.proximal.swap(0)
            self._choose_prototypes(None)

    def on_epoch_end(self, epoch: int, logs: Optional[dict[str, float]] = None) -> None:
        """Evaluates; keeps weights and prototypes if they are the best, or begins the next projection."""
        super().on_epoch_end(epoch, logs)
        if (epoch + 1) % self._every_epochs:
            return
        score = self._score()
        if logs is not None:
            logs[SCORE] = score
        if self._plateau.take(score):
            self._best_weights = self.model.proximal.weights()
            if self._start == "best":
                self._best_statistics = [variable.numpy() for variable in self._statistics]
            self._best_prototypes = self._loss.compared_prototypes().numpy()
        if self._plateau.has_ended:
            self._begin_projection(epoch)

    def state(self) -> dict[str, Any]:
        """Returns what a resumed run needs: the scores of the projection, its best weights and prototypes."""
        state = {**super().state(), **self._plateau.state()}
        if self._best_prototypes is not None:
            state["best_prototypes"] = self._best_prototypes
        for prefix, arrays in ((_WEIGHT, self._best_weights), (_STATISTIC, self._best_statistics)):
            state.update({f"{prefix}{i}": array for i, array in enumerate(arrays)})
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Takes over what `state` returned."""
        super().restore(state)
        self._plateau.restore(state)
        self._best_prototypes = state.get("best_prototypes")
        self._best_weights, self._best_statistics = (
            [state[f"{prefix}{i}"] for i in range(sum(name.startswith(prefix) for name in state))]
            for prefix in (_WEIGHT, _STATISTIC)
        )

    @property
    def _loss(self) -> ChanceConstrainedLoss:
        loss = getattr(self.model, "metric_loss", None)
        if not isinstance(self.model, ProfsModel) or not isinstance(loss, ChanceConstrainedLoss):
            raise ValueError(
                "`model` must be a ProfsModel with a ChanceConstrainedLoss for CCP, got "
                f"{type(self.model).__name__} with {type(loss).__name__}."
            )
        return loss

    @property
    def _index(self) -> int:
        """k, -1 before the first projection; checkpoints hold it with the anchors."""
        return int(self.model.proximal.projection_index.numpy())

    @property
    def _statistics(self) -> list[tf.Variable]:
        """The moving statistics of the embedder, by which it embeds as it did when it was scored."""
        return [each for each in self.model.embedder.non_trainable_variables if each.dtype.is_floating]

    def _set_up(self, proximal: ProximalTerm) -> bool:
        return proximal.move_anchors(lagged=False, first_projection_pull=False)

    def _begins_projection(self) -> bool:
        """Returns False: projections begin between epochs."""
        return False

    def _projection_index(self, step: int) -> int:
        return self._index

    def _begin_projection(self, epoch: int) -> None:
        """Begins the next projection: anchors, prototypes, no score."""
        index = self._index + 1
        if self._start == "best":
            self.model.proximal.restore(self._best_weights)
            for variable, value in zip(self._statistics, self._best_statistics):
                variable.assign(value)
        self.model.proximal.swap_to(self._best_weights, index)
        self._choose_prototypes(self._best_prototypes)
        self._plateau.begin()
        if self._verbose:
            print(f"Epoch {epoch + 1}: {SCORE} is on a plateau; projection {index} begins.", flush=True)

    def _choose_prototypes(self, covered: Optional[np.ndarray]) -> None:
        """Sets the prototypes to embeddings of a pool; `covered` [L, K, D] are those of before."""
        pool = draw_pool(self.sampler.table, self.sampler.seed, self._index, self._pool_size)
        embeddings = self._embed(self._train_images.take(pool.ravel())).reshape(*pool.shape, -1)
        chosen = greedy_k_center(embeddings, self._loss.prototypes_per_class, covered)
        self._loss.prototypes.assign(np.take_along_axis(embeddings, chosen[:, :, None], axis=1))

    def _score(self) -> float:
        """Returns MAP@R on the validation classes."""
        images = self._validation_images
        split = query_and_gallery(self._embed(images), images.labels, images.is_query)
        return evaluate(**split, ks=(1,), map_at_r=True, clustering=False)["map@r"]

    def _embed(self, images: Images) -> np.ndarray:
        embeddings = embed(
            self.model.embedder, images, preprocessing=self._preprocessing, batch_size=self._batch_size
        )
        if not np.isfinite(embeddings).all():
            raise NonFiniteLossError(TERMS[0], self.model.steps_taken)
        return embeddings


def _check_same_classes(table: ClassTable, images: Images) -> None:
    """Raises ValueError unless the images are of the sampler's classes, as far as labels can tell."""
    labels = np.unique(images.labels, return_inverse=True)[1]
    expected = table.class_of_image
    if table.class_labels.dtype.kind == "U":
        # Names need not be in the order of the images' class numbers.
        expected = labels[table.images_by_class[table.starts]][expected]
    others = np.flatnonzero(labels != expected)
    if len(others):
        raise ValueError(
            "`train_images` must be in the order of the sampler's labels, got another class at index "
            f"{others[0]}. Make the sampler from `train_images.labels`."
        )


def _check_has_positives(images: Images) -> None:
    """Raises ValueError unless a query has another image of its class in the gallery."""
    labels, is_query = np.asarray(images.labels), images.is_query
    if is_query is None:
        found = len(np.unique(labels)) < len(labels)
    else:
        found = bool(np.isin(labels[is_query], labels[~is_query]).any())
    if not found:
        raise ValueError(
            "`validation_images` must hold a class with two images, or no image has another one to be found, "
            f"got {len(labels)} images of {len(np.unique(labels))} classes."
        )
