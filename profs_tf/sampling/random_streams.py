"""Counter-based random streams: a draw depends on (seed, purpose, step) only, not on earlier draws."""

import numpy as np

# Each purpose has its own stream: more draws for one do not change the others.
REPRESENTATIVES = 1
BATCH = 2
CYCLE = 3
VIEW = 4
CLASS_ROUND = 5
REPRESENTATIVE_VIEW = 6
POOL = 7


def generator(seed: int, purpose: int, index: int) -> np.random.Generator:
    """Returns the generator of one draw, from Philox with key (seed, purpose) and counter (0, 0, 0, index).

    Args:
        seed: The run's seed, 0 <= seed < 2**63.
        purpose: One of this module's constants.
        index: The step or projection, 0 <= index < 2**63.
    """
    return np.random.Generator(np.random.Philox(key=[seed, purpose], counter=[0, 0, 0, index]))


def hashed_uniform_bits(seed: int, purpose: int, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Returns 64 random bits for each pair (first[i], second[i]), the same for equal pairs.

    One round of the SplitMix64 finalizer for each value mixed in, and one more (Steele, Lea and Flood, "Fast
    splittable pseudorandom number generators", OOPSLA 2014).

    Args:
        seed: As in `generator`.
        purpose: As in `generator`.
        first: int64 [N].
        second: int64 [N].

    Returns:
        uint64 [N].
    """
    state = np.full(len(first), np.uint64((seed * 4 + purpose) & 0xFFFFFFFFFFFFFFFF))
    for word in (first, second):
        state = _finalize(state ^ _finalize(word.astype(np.uint64)))
    return _finalize(state)


def _finalize(bits: np.ndarray) -> np.ndarray:
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
