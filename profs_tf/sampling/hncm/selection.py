"""Hard negative class mining (HNCM): which classes join a batch, by what the memory says is near to what.

Shapes: L classes, C classes in a batch, h hard classes for each seed class.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Optional

import numpy as np

from profs_tf.sampling.hncm.memory import ClassMemory

STRATEGIES = ("nearest", "greedy")


@dataclass(frozen=True)
class ClassMining:
    """How classes are mined.

    * "nearest": seed classes are drawn uniformly; each in turn brings its h nearest classes that are not in
      the batch yet, until C classes are there: ``C / (1 + h)`` seeds. One scan of the memory a seed, O(L D).
    * "greedy": one class is drawn uniformly; then the class nearest to *any* class in the batch is added,
      until there are C (Sohn, "Improved Deep Metric Learning with Multi-class N-pair Loss Objective", NIPS
      2016, section 3.2.1). One scan a class.

    Where the memory cannot tell, because a class or all that are left were not seen yet, classes are drawn
    uniformly in place of neighbours. So the first batches are ordinary ones.

    Attributes:
        hard_classes_per_seed: h.
        strategy: "nearest" or "greedy".
    """

    hard_classes_per_seed: int = 3
    strategy: str = "nearest"

    def __post_init__(self) -> None:
        if self.hard_classes_per_seed < 1:
            raise ValueError(f"`hard_classes_per_seed` must be >= 1, got {self.hard_classes_per_seed}.")
        if self.strategy not in STRATEGIES:
            raise ValueError(f"`strategy` must be one of {', '.join(STRATEGIES)}, got {self.strategy!r}.")

    def choose(self, random: np.random.Generator, memory: ClassMemory, count: int) -> np.ndarray:
        """Returns C different classes, int64 [C], in the order in which they joined.

        Args:
            random: draws seeds, and what stands in for neighbours not known.
            memory: of all L classes.
            count: C, at most L.
        """
        drawn = random.permutation(len(memory.seen))
        choose = _nearest if self.strategy == "nearest" else _greedy
        return choose(_Batch(drawn, count), memory, self.hard_classes_per_seed)


class _Batch:
    """The classes of a batch while it is filled; `drawn` is a random order of all classes."""

    def __init__(self, drawn: np.ndarray, count: int):
        self.classes: list[int] = []
        self.count = count
        self.is_in = np.zeros(len(drawn), bool)
        # Numbers of Python: NumPy takes longer to hand one out than all else that is done with it.
        self._drawn = drawn.tolist()
        self._next = 0

    @property
    def missing(self) -> int:
        return self.count - len(self.classes)

    def add(self, class_index: int) -> None:
        self.classes.append(class_index)
        self.is_in[class_index] = True

    def upcoming(self, number: int) -> list[int]:
        """Returns the next so many of the random order that are not in the batch, and adds none."""
        rest = itertools.islice(self._drawn, self._next, None)
        return list(itertools.islice(itertools.filterfalse(self.is_in.item, rest), number))

    def next_drawn(self) -> int:
        """Returns the next class of the random order that is not in the batch, and does not add it."""
        while self.is_in.item(self._drawn[self._next]):
            self._next += 1
        return self._drawn[self._next]

    def add_drawn(self) -> int:
        """Adds the next class of the random order."""
        drawn = self.next_drawn()
        self.add(drawn)
        return drawn

    def as_array(self) -> np.ndarray:
        return np.array(self.classes, np.int64)


def _nearest(batch: _Batch, memory: ClassMemory, hard_classes: int) -> np.ndarray:
    scans = _Scans(memory)
    while batch.missing:
        seed = batch.next_drawn()
        scan = scans.of_seed(seed, batch, hard_classes)
        batch.add(seed)
        for _ in range(min(hard_classes, batch.missing)):
            neighbour = _take_nearest(scan, batch)
            if neighbour is None:
                batch.add_drawn()
            else:
                batch.add(neighbour)
    return batch.as_array()


class _Scans:
    """Scans of several seeds in one go: a large memory is read from RAM once for all of them."""

    def __init__(self, memory: ClassMemory):
        self._memory = memory
        self._rows: dict[int, np.ndarray] = {}

    def of_seed(self, seed: int, batch: _Batch, hard_classes: int) -> np.ndarray:
        """Returns how far the classes are from the seed, the next of the batch's random order.

        float32 [L]; infinite for itself, for classes not seen and for those that were in the batch at the
        scan, and all of it if the seed was not seen.
        """
        if seed not in self._rows:
            # Some join as neighbours of others before it is their turn: then the next are scanned for.
            self._scan(batch, -(-batch.missing // (1 + hard_classes)))
        return self._rows[seed]

    def _scan(self, batch: _Batch, number: int) -> None:
        upcoming = batch.upcoming(number)
        seeds = np.array(upcoming)
        remoteness = self._memory.remoteness(seeds, batch.is_in)
        remoteness[np.arange(len(seeds)), seeds] = np.inf
        remoteness[~self._memory.seen[seeds]] = np.inf
        self._rows = dict(zip(upcoming, remoteness))


def _greedy(batch: _Batch, memory: ClassMemory, hard_classes: int) -> np.ndarray:
    del hard_classes  # every class but the first is a neighbour
    remoteness = np.full(len(memory.seen), np.inf, np.float32)
    while batch.missing:
        added = _take_nearest(remoteness, batch)
        if added is None:
            added = batch.add_drawn()
        else:
            batch.add(added)
        if memory.seen[added]:
            scan = memory.remoteness(np.array([added]), batch.is_in)[0]
            # The row's constant makes scans of different classes comparable.
            own = memory.embeddings[added]
            scan = scan + np.float32(0.5) * np.sum(own * own)
            np.minimum(remoteness, scan, out=remoteness)
    return batch.as_array()


def _take_nearest(remoteness: np.ndarray, batch: _Batch) -> Optional[int]:
    """Returns where a scan [L] is least outside the batch, of equal ones the first, and sets it to infinity.

    None if there is none. What is found in the batch is set to infinity as well, lest it be found again.
    """
    while True:
        nearest = int(remoteness.argmin())
        if remoteness.item(nearest) == math.inf:
            return None
        remoteness[nearest] = np.inf
        if not batch.is_in.item(nearest):
            return nearest
