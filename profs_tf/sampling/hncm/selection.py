"""Hard negative class mining (HNCM): chooses the classes of a batch by the distances in a `ClassMemory`.

Shapes: L classes, C classes in a batch, h hard classes for each seed class.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Optional

import numpy as np

from profs_tf.sampling.hncm.memory import ClassMemory
from profs_tf.utils.checks import check_count, check_one_of

STRATEGIES = ("nearest", "greedy")


@dataclass(frozen=True)
class ClassMining:
    """How classes are mined.

    * "nearest": seed classes are drawn uniformly. Each adds its h nearest classes that are not in the batch
      yet, until the batch has C classes: ``C / (1 + h)`` seeds. One O(L D) scan of the memory per seed.
    * "greedy": one class is drawn uniformly. Then the class nearest to *any* class in the batch is added
      until the batch has C classes (Sohn, "Improved Deep Metric Learning with Multi-class N-pair Loss
      Objective", NIPS 2016, section 3.2.1). One scan per class.

    If a seed, or every class that is left, has not been seen yet, classes are drawn uniformly instead of
    neighbors. So the first batches are ordinary ones.

    Attributes:
        hard_classes_per_seed: h.
        strategy: "nearest" or "greedy".
    """

    hard_classes_per_seed: int = 3
    strategy: str = "nearest"

    def __post_init__(self) -> None:
        check_count("hard_classes_per_seed", self.hard_classes_per_seed)
        check_one_of("strategy", self.strategy, STRATEGIES)

    def choose(self, random: np.random.Generator, memory: ClassMemory, count: int) -> np.ndarray:
        """Returns C different classes, int64 [C], in the order in which they joined.

        Args:
            random: Draws the seeds, and classes instead of unknown neighbors.
            memory: The memory of all L classes.
            count: C, at most L.
        """
        drawn = random.permutation(len(memory.seen))
        choose = _nearest if self.strategy == "nearest" else _greedy
        return choose(_BatchClasses(drawn, count), memory, self.hard_classes_per_seed)


class _BatchClasses:
    """The classes chosen so far; `drawn` is a random order of all classes."""

    def __init__(self, drawn: np.ndarray, count: int):
        self.classes: list[int] = []
        self.count = count
        self.is_in = np.zeros(len(drawn), bool)
        # A list: reading single elements of an array takes longer than all that is done with them.
        self._drawn = drawn.tolist()
        self._next = 0

    @property
    def missing(self) -> int:
        return self.count - len(self.classes)

    def add(self, class_index: int) -> None:
        self.classes.append(class_index)
        self.is_in[class_index] = True

    def upcoming(self, number: int) -> list[int]:
        """Returns the next `number` classes of the random order that are not in the batch."""
        rest = itertools.islice(self._drawn, self._next, None)
        return list(itertools.islice(itertools.filterfalse(self.is_in.item, rest), number))

    def next_drawn(self) -> int:
        """Returns the next class of the random order that is not in the batch."""
        while self.is_in.item(self._drawn[self._next]):
            self._next += 1
        return self._drawn[self._next]

    def add_drawn(self) -> int:
        """Adds the next class of the random order, and returns it."""
        drawn = self.next_drawn()
        self.add(drawn)
        return drawn

    def as_array(self) -> np.ndarray:
        return np.array(self.classes, np.int64)


def _nearest(batch: _BatchClasses, memory: ClassMemory, hard_classes: int) -> np.ndarray:
    scans = _Scans(memory)
    while batch.missing:
        seed = batch.next_drawn()
        scan = scans.of_seed(seed, batch, hard_classes)
        batch.add(seed)
        for _ in range(min(hard_classes, batch.missing)):
            neighbor = _take_nearest(scan, batch)
            if neighbor is None:
                batch.add_drawn()
            else:
                batch.add(neighbor)
    return batch.as_array()


class _Scans:
    """Scans for several seeds together, so that a large memory is read from RAM once for all of them."""

    def __init__(self, memory: ClassMemory):
        self._memory = memory
        self._rows: dict[int, np.ndarray] = {}

    def of_seed(self, seed: int, batch: _BatchClasses, hard_classes: int) -> np.ndarray:
        """Returns the relative distances of all classes from a seed, the next of the batch's random order.

        Float32 [L]; infinite for the seed itself, unseen classes and those in the batch at the time of the
        scan; all infinite if the seed was not seen.
        """
        if seed not in self._rows:
            # Classes that join as neighbors before their turn are no seeds: then the next ones are scanned.
            self._scan(batch, -(-batch.missing // (1 + hard_classes)))
        return self._rows[seed]

    def _scan(self, batch: _BatchClasses, number: int) -> None:
        upcoming = batch.upcoming(number)
        seeds = np.array(upcoming)
        distances = self._memory.relative_distances(seeds, batch.is_in)
        distances[np.arange(len(seeds)), seeds] = np.inf
        distances[~self._memory.seen[seeds]] = np.inf
        self._rows = dict(zip(upcoming, distances))


def _greedy(batch: _BatchClasses, memory: ClassMemory, hard_classes: int) -> np.ndarray:
    del hard_classes  # Every class but the first is a neighbor.
    distances = np.full(len(memory.seen), np.inf, np.float32)
    while batch.missing:
        added = _take_nearest(distances, batch)
        if added is None:
            added = batch.add_drawn()
        else:
            batch.add(added)
        if memory.seen[added]:
            scan = memory.relative_distances(np.array([added]), batch.is_in)[0]
            # With the row's constant, scans of different classes are comparable.
            own = memory.embeddings[added]
            scan = scan + np.float32(0.5) * np.sum(own * own)
            np.minimum(distances, scan, out=distances)
    return batch.as_array()


def _take_nearest(distances: np.ndarray, batch: _BatchClasses) -> Optional[int]:
    """Returns the nearest class outside the batch, the first of equal ones; None if none is left.

    In `distances` [L], sets its value and those of nearer classes to infinity.
    """
    while True:
        nearest = int(distances.argmin())
        if distances.item(nearest) == math.inf:
            return None
        distances[nearest] = np.inf
        if not batch.is_in.item(nearest):
            return nearest
