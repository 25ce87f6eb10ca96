"""Draws the images of every batch: representatives of some classes (R'), then other images of these (E).

Shapes: L classes, N images, B = C * I images a batch of C classes with I images each.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Optional

import numpy as np

from profs_tf.sampling import random_streams
from profs_tf.sampling.class_index import ClassTable
from profs_tf.sampling.projection_schedule import Schedule, classes_in_batch, derive_steps_per_projection
from profs_tf.sampling.representatives import REPRESENTATIVE_DRAWS, draw_representatives
from profs_tf.utils.array_types import Labels
from profs_tf.utils.checks import check_count, check_one_of

QUERIES = ("representatives", "all")
CLASS_DRAWS = ("independent", "rounds")


class BatchIndices(NamedTuple):
    """The images of one step's batch.

    Attributes:
        step: t, counted from 0.
        indices: int64 [B], image indices: the C representatives, then the B-C examples class by class.
        labels: int64 [B], class indices 0 to L-1.
        is_representative: float32 [B], 1 for the images that may act as queries.
        projection_index: k, the projection that the step is in.
    """

    step: int
    indices: np.ndarray
    labels: np.ndarray
    is_representative: np.ndarray
    projection_index: int


class BatchSampler:
    """Draws the batch of every step as a pure function of (seed, step).

    A batch holds ``C = min(B // I, L)`` classes, drawn uniformly without replacement, and exactly I images of
    each: its representative in the current projection, and I-1 others drawn without replacement. In a class
    with fewer than I images, all others are drawn before one is drawn again. A class with a single image
    repeats its representative as its own example, under another augmentation.

    Drawing costs O(C I^2) per batch, and O(L) (O(N log N) for the cyclic draw) per projection.

    An epoch is ``len(sampler) = ceil(N / B)`` steps, the number that N images fill. It does not show every
    image, nor every class with the "independent" draw: a class is in none of T batches with probability
    ``(1 - C/L)**T``. With "rounds" every ``ceil(L / C)`` batches show every class.

    Attributes:
        table: The images of each class (`ClassTable`); class l has the label ``table.class_labels[l]``.
        classes_per_batch: C.
        batch_size: B = C * I, less than the argument if there are fewer than ``B // I`` classes.
        schedule: The `Schedule` with M, which the callback follows too.
        first_step: The step of the first batch of an iteration. The callback sets it to the model's step when
            training begins, so that a second `fit` or a resumed run continues at the weights' step.
    """

    def __init__(
        self,
        labels: Labels,
        batch_size: int = 128,
        images_per_class: int = 2,
        seed: int = 0,
        *,
        representative_uses: int = 6,
        steps_per_projection: Optional[int] = None,
        representative_draw: str = "uniform",
        queries: str = "representatives",
        representative_reuse: bool = True,
        class_draw: str = "independent",
    ) -> None:
        """Prepares the draws; O(N log N).

        Args:
            labels: [N] integers or strings, the class of every training image.
            batch_size: B, a multiple of `images_per_class`.
            images_per_class: I, the representative included.
            seed: 0 <= seed < 2**62.
            representative_uses: rho; determines M if `steps_per_projection` is None.
            steps_per_projection: M. With 1, every batch draws its own representatives: ordinary batches.
            representative_draw: "uniform" or "cyclic", see `draw_representatives`.
            queries: Which images may act as queries: "representatives" (PROFS) or "all" (the ordinary batch
                loss).
            representative_reuse: Whether the batches of a projection share its representatives. If not, every
                batch draws its own, as with M = 1, and only the anchor weights follow the projections.
            class_draw: "independent" draws the classes of each batch anew, O(C). "rounds" visits every class
                before any is visited again: the batches of a round of ``ceil(L / C)`` steps part a shuffle of
                the classes, O(L), and the last one is filled up with classes drawn from the earlier ones.

        Raises:
            ValueError: If an argument is out of its range.
        """
        self.table = ClassTable(labels)
        self.images_per_class = check_count("images_per_class", images_per_class)
        self.classes_per_batch = classes_in_batch(batch_size, self.images_per_class, self.table.num_classes)
        self.batch_size = self.classes_per_batch * self.images_per_class
        self.seed = check_count("seed", seed, minimum=0)
        if self.seed >= 2**62:
            raise ValueError(f"`seed` must be below 2**62, got {seed}.")
        if steps_per_projection is None:
            steps_per_projection = derive_steps_per_projection(
                self.num_classes, self.classes_per_batch, representative_uses
            )
        self.schedule = Schedule(steps_per_projection)
        self.representative_draw = check_one_of(
            "representative_draw", representative_draw, REPRESENTATIVE_DRAWS
        )
        self.queries = check_one_of("queries", queries, QUERIES)
        self.class_draw = check_one_of("class_draw", class_draw, CLASS_DRAWS)
        self.representative_reuse = representative_reuse
        self.first_step = 0
        self._latest = (-1, np.empty(0, np.int64))

    @property
    def num_classes(self) -> int:
        """L."""
        return self.table.num_classes

    @property
    def steps_per_projection(self) -> int:
        """M."""
        return self.schedule.steps_per_projection

    @property
    def shares_representatives(self) -> bool:
        """Whether several batches have the same representatives."""
        return self.representative_reuse and self.steps_per_projection > 1

    def __len__(self) -> int:
        return -(-self.table.num_images // self.batch_size)

    def representatives(self, projection_index: int) -> np.ndarray:
        """Returns R of projection k, int64 [L]; of step k without `representative_reuse`."""
        latest_index, latest = self._latest
        if latest_index != projection_index:
            latest = draw_representatives(self.table, self.seed, projection_index, self.representative_draw)
            latest.flags.writeable = False
            self._latest = (projection_index, latest)
        return latest

    def batch(self, step: int) -> BatchIndices:
        """Returns the batch of step t, a pure function of the seed and t.

        Raises:
            ValueError: If `step` is negative.
        """
        if step < 0:
            raise ValueError(f"`step` must be >= 0, got {step}.")
        return self._make_batch(step, lambda random: self._draw_classes(random, step))

    def _draw_classes(self, random: np.random.Generator, step: int) -> np.ndarray:
        """Returns the classes of a batch, int64 [C], all different."""
        if self.class_draw == "independent":
            return random.choice(self.num_classes, self.classes_per_batch, replace=False)
        round_index, turn = divmod(step, -(-self.num_classes // self.classes_per_batch))
        shuffle = random_streams.generator(self.seed, random_streams.CLASS_ROUND, round_index)
        order = shuffle.permutation(self.num_classes)
        first = turn * self.classes_per_batch
        due = order[first : first + self.classes_per_batch]
        visited = random.choice(order[:first], self.classes_per_batch - len(due), replace=False)
        return np.concatenate([due, visited])

    def _make_batch(
        self,
        step: int,
        choose_classes: Callable[[np.random.Generator], np.ndarray],
        projection_index: Optional[int] = None,
    ) -> BatchIndices:
        """Returns the batch of a step in a projection, by default that of the schedule."""
        if projection_index is None:
            projection_index = self.schedule.projection_index(step)
        representatives = self.representatives(projection_index if self.representative_reuse else step)
        random = random_streams.generator(self.seed, random_streams.BATCH, step)
        classes = choose_classes(random)
        batch_representatives = representatives[classes]
        batch_examples = self._draw_examples(random, classes, batch_representatives)
        is_representative = np.ones(self.batch_size, np.float32)
        if self.queries == "representatives":
            is_representative[self.classes_per_batch :] = 0.0
        return BatchIndices(
            step=step,
            indices=np.concatenate([batch_representatives, batch_examples.ravel()]),
            labels=np.concatenate([classes, np.repeat(classes, self.images_per_class - 1)]).astype(np.int64),
            is_representative=is_representative,
            projection_index=projection_index,
        )

    def iterate_from(self, first_step: int = 0) -> Iterator[BatchIndices]:
        """Yields the batches of the steps first_step, first_step + 1, ... without end."""
        step = first_step
        while True:
            yield self.batch(step)
            step += 1

    def __iter__(self) -> Iterator[BatchIndices]:
        return self.iterate_from(self.first_step)

    def _draw_examples(
        self, random: np.random.Generator, classes: np.ndarray, batch_representatives: np.ndarray
    ) -> np.ndarray:
        """Returns the other images of each class, int64 [C, I-1]."""
        sizes = self.table.sizes[classes]
        positions = draw_without_replacement(random, np.maximum(sizes - 1, 1), self.images_per_class - 1)
        # Positions do not count the representative: step over it, unless it is the only image.
        representative_positions = self.table.position_in_class[batch_representatives]
        positions += (positions >= representative_positions[:, None]) & (sizes > 1)[:, None]
        return self.table.images_by_class[self.table.starts[classes][:, None] + positions]


def draw_without_replacement(random: np.random.Generator, population: np.ndarray, count: int) -> np.ndarray:
    """Draws `count` of the numbers 0 to population[c]-1 for each c; once all are drawn, it starts anew.

    Args:
        random: The generator.
        population: int64 [C], at least 1 each.
        count: The number of draws for each c.

    Returns:
        int64 [C, count].
    """
    uniform = random.random((len(population), count))
    drawn = np.empty((len(population), count), np.int64)
    for turn in range(count):
        drawn_this_round = turn % population
        number = (uniform[:, turn] * (population - drawn_this_round)).astype(np.int64)
        belongs = np.arange(turn) >= turn - drawn_this_round[:, None]
        taken = np.sort(np.where(belongs, drawn[:, :turn], population[:, None]), axis=1)
        # `number` counts the free numbers; stepping over the taken ones in ascending order gives its value.
        for column in taken.T:
            number += number >= column
        drawn[:, turn] = number
    return drawn
