"""Hard negative class mining (HNCM): which classes join a batch, by what the memory says is near to what.

Shapes: L classes, C classes in a batch, h hard classes for each seed class.
"""

from dataclasses import dataclass
from typing import Optional

import numpy as np

from profs_tf.sampling.class_memory import ClassMemory

STRATEGIES = ("nearest", "greedy")
# Classes up to which sorting a row is faster than first finding its small part.
_SORTED_WHOLE = 256


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
        self._drawn = drawn
        self._next = 0

    @property
    def is_full(self) -> bool:
        return len(self.classes) == self.count

    def add(self, class_index: int) -> None:
        self.classes.append(class_index)
        self.is_in[class_index] = True

    def upcoming(self, number: int) -> np.ndarray:
        """Returns the next so many of the random order that are not in the batch, and adds none."""
        rest = self._drawn[self._next :]
        return rest[~self.is_in[rest]][:number]

    def next_drawn(self) -> int:
        """Returns the next class of the random order that is not in the batch, and does not add it."""
        while self.is_in[self._drawn[self._next]]:
            self._next += 1
        return int(self._drawn[self._next])

    def add_drawn(self) -> int:
        """Adds the next class of the random order."""
        self.add(self.next_drawn())
        return self.classes[-1]

    def as_array(self) -> np.ndarray:
        return np.array(self.classes, np.int64)


def _nearest(batch: _Batch, memory: ClassMemory, hard_classes: int) -> np.ndarray:
    scans = _Scans(memory)
    while not batch.is_full:
        seeds_left = -(-(batch.count - len(batch.classes)) // (1 + hard_classes))
        neighbours = scans.of_next_seed(batch, seeds_left)
        batch.add_drawn()
        wanted = min(hard_classes, batch.count - len(batch.classes))
        for neighbour in neighbours:
            if not wanted:
                break
            if not batch.is_in[neighbour]:
                batch.add(neighbour)
                wanted -= 1
        for _ in range(wanted):
            batch.add_drawn()
    return batch.as_array()


class _Scans:
    """Scans of several seeds in one matrix product: the memory is read from RAM once for all of them."""

    def __init__(self, memory: ClassMemory):
        self._memory = memory
        self._neighbours: dict[int, list[int]] = {}

    def of_next_seed(self, batch: _Batch, seeds_left: int) -> list[int]:
        """Returns the classes nearest to the seed that `add_drawn` adds next; none if it was not seen."""
        if batch.next_drawn() not in self._neighbours:
            # Some join as neighbours of others before it is their turn: then the next are scanned for.
            self._prepare(batch.upcoming(seeds_left), batch.count)
        return self._neighbours[batch.next_drawn()]

    def _prepare(self, seeds: np.ndarray, count: int) -> None:
        known = seeds[self._memory.seen[seeds]]
        self._neighbours = {seed: [] for seed in seeds.tolist()}
        # As many as a batch holds are enough: those of them that are not in it yet fill it.
        nearest = _nearest_seen(self._memory.remoteness(known), count, np.count_nonzero(self._memory.seen))
        self._neighbours.update(zip(known.tolist(), nearest))


def _greedy(batch: _Batch, memory: ClassMemory, hard_classes: int) -> np.ndarray:
    del hard_classes  # every class but the first is a neighbour
    remoteness = None
    while not batch.is_full:
        added = _nearest_outside(remoteness, batch)
        if added is None:
            added = batch.add_drawn()
        else:
            batch.add(added)
        if memory.seen[added]:
            scan = memory.remoteness(np.array([added]))[0]
            # The row's constant makes scans of different classes comparable.
            own = memory.embeddings[added]
            scan = scan + np.float32(0.5) * np.sum(own * own)
            remoteness = scan if remoteness is None else np.minimum(remoteness, scan)
    return batch.as_array()


def _nearest_seen(remoteness: np.ndarray, number: int, num_seen: int) -> list[list[int]]:
    """Returns the numbers of the nearest columns of each row, nearest first, equal ones by their number.

    Args:
        remoteness: float32 [S, L], infinite in the columns of the L - `num_seen` classes not seen.
        number: how many columns, unless fewer were seen.
        num_seen: classes seen.
    """
    number = min(number, num_seen)
    if remoteness.shape[1] <= _SORTED_WHOLE:
        return np.argsort(remoteness, axis=1, kind="stable")[:, :number].tolist()
    return [_nearest_of_many(row, number) for row in remoteness]


def _nearest_of_many(remoteness: np.ndarray, number: int) -> list[int]:
    limit = np.partition(remoteness, number - 1)[number - 1]
    candidates = np.flatnonzero(remoteness <= limit)
    return candidates[np.argsort(remoteness[candidates], kind="stable")][:number].tolist()


def _nearest_outside(remoteness: Optional[np.ndarray], batch: _Batch) -> Optional[int]:
    """Returns the nearest seen class outside the batch, of equal ones the first; None where there is none."""
    if remoteness is None:
        return None
    outside = np.where(batch.is_in, np.float32(np.inf), remoteness)
    nearest = int(np.argmin(outside))
    return nearest if np.isfinite(outside[nearest]) else None
