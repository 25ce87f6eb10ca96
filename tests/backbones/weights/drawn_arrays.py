"""Random arrays in place of published weights."""

import numpy as np


def draw(shapes):
    """Returns float32 arrays by name, all different from 0."""
    rng = np.random.default_rng(0)
    return {name: np.asarray(rng.uniform(0.5, 1, shape), np.float32) for name, shape in shapes.items()}
