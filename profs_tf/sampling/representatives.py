"""Draws the representatives R of a projection: one image of every class (paper, Algorithm 1)."""

import numpy as np

from profs_tf.sampling import random_streams
from profs_tf.sampling.class_index import ClassTable

REPRESENTATIVE_DRAWS = ("uniform", "cyclic")


def draw_representatives(
    table: ClassTable, seed: int, projection_index: int, draw: str = "uniform"
) -> np.ndarray:
    """Returns R for projection k, a pure function of the arguments.

    Args:
        table: The images of each class.
        seed: The run's seed.
        projection_index: k.
        draw: "uniform" draws each class's representative uniformly and anew, as Algorithm 1 does; O(L).
            "cyclic" draws without replacement until every image of the class has been a representative, then
            shuffles again: the reading of section 4 in which ``R^(k)`` and ``R^(k')`` are disjoint within a
            cycle; O(N log N).

    Returns:
        int64 [L]: ``R[l]`` is the index of an image of class l.
    """
    return (_cyclic if draw == "cyclic" else _uniform)(table, seed, projection_index)


def _uniform(table: ClassTable, seed: int, projection_index: int) -> np.ndarray:
    random = random_streams.generator(seed, random_streams.REPRESENTATIVES, projection_index)
    positions = (random.random(table.num_classes) * table.sizes).astype(np.int64)
    return table.images_by_class[table.starts + positions]


def _cyclic(table: ClassTable, seed: int, projection_index: int) -> np.ndarray:
    cycles, turns = np.divmod(projection_index, table.sizes)
    sorted_classes = np.repeat(np.arange(table.num_classes), table.sizes)
    order_keys = random_streams.hashed_uniform_bits(
        seed, random_streams.CYCLE, table.images_by_class, cycles[sorted_classes]
    )
    # Sorting each class's images by a key that depends on the cycle is a shuffle of the class for that cycle.
    shuffled = table.images_by_class[np.lexsort((order_keys, sorted_classes))]
    return shuffled[table.starts + turns]
